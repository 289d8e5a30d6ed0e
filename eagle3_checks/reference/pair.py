"""The tiny pair: tokenizer, target and drafter, built from nothing by one recipe."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch.nn import functional

from eagle3_checks.reference.acceptance import simulate
from eagle3_checks.reference.checkpoint import load_drafter, save_drafter
from eagle3_checks.reference.corpus import read_corpus
from eagle3_checks.reference.drafter import Drafter
from eagle3_checks.reference.drafter_config import DrafterConfig
from eagle3_checks.reference.generation import generate
from eagle3_checks.reference.optimizer import Schedule
from eagle3_checks.reference.prompts import cut_prompts
from eagle3_checks.reference.target import TargetConfig, build_target, load_target, save_target
from eagle3_checks.reference.tokenizer import BOS_ID, EOS_ID, save_tokenizer, train_tokenizer
from eagle3_checks.reference.training import column_means, train_drafter, train_target
from eagle3_checks.reference.unlooping import Unlooping, distinct_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tokenizers import Tokenizer
    from torch import Tensor
    from transformers import LlamaForCausalLM

    from eagle3_checks.reference.corpus import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything the pair depends on, besides the standard library it reads."""

    seed: int = 23
    target: TargetConfig = field(default_factory=TargetConfig)
    target_schedule: Schedule = field(
        default_factory=lambda: Schedule(steps=620, batch=16, length=256)
    )
    unlooping: Unlooping = field(default_factory=lambda: Unlooping(steps=120))
    texts: int = 4096
    """Greedy texts of the target that the drafter is trained on."""
    prompt_tokens: tuple[int, ...] = (32, 64, 96, 128)
    """Their beginnings come from the training text, a quarter of each length."""
    draft_vocab_size: int = 1024
    drafter_intermediate_size: int = 512
    drafter_schedule: Schedule = field(
        default_factory=lambda: Schedule(steps=500, batch=16, length=256)
    )
    unroll: int = 4
    """Draft steps unrolled in training."""


@dataclass(slots=True)
class Report:
    """What a build saw."""

    recipe: Recipe
    measured: dict[str, Any] = field(default_factory=dict)
    began: tuple[float, float] = field(
        default_factory=lambda: (time.monotonic(), time.process_time())
    )

    def clock(self, name: str) -> None:
        """Note how long the build has taken: wall time, and the time its threads had a core."""
        wall, cpu = time.monotonic() - self.began[0], time.process_time() - self.began[1]
        self.measured[name] = {"seconds": round(wall), "core_seconds": round(cpu)}

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "measured": self.measured,
            "recipe": asdict(self.recipe),
        }


def build_pair(out: Path, recipe: Recipe, log: Callable[[str], None]) -> Report:
    """Build the pair into `out`/target and `out`/drafter: minutes of two cores."""
    report = Report(recipe)
    torch.manual_seed(recipe.seed)
    corpus = read_corpus()
    tokenizer = train_tokenizer((file.text for file in corpus.training), recipe.target.vocab_size)
    ids = encode(corpus.training, tokenizer)
    report.measured["training_files"] = len(corpus.training)
    report.measured["training_tokens"] = len(ids)
    folder = out / "target"
    model = build_target(recipe.target)
    losses = train_target(model, ids, recipe.target_schedule, recipe.unlooping, log)
    save_target(model, recipe.target, folder)
    save_tokenizer(tokenizer, folder, recipe.target.max_position_embeddings)
    report.clock("target_done")
    # From here on the target is the one that will be served: its weights as they were stored.
    target = load_target(folder)
    report.measured["target_loss"] = sum(losses[-50:]) / 50
    report.measured["target_held_out_loss"] = held_out_loss(
        target, encode(corpus.held_out, tokenizer), recipe
    )

    texts = write_texts(target, ids, recipe)
    report.clock("texts_done")
    drafter = start_drafter(target, texts, recipe)
    history = train_drafter(drafter, target, texts, recipe.drafter_schedule, log)
    save_drafter(drafter, out / "drafter")
    report.clock("drafter_done")
    report.measured["drafter_step_accuracies"] = column_means(history[-50:])
    drafter = load_drafter(out / "drafter", target.get_input_embeddings().weight)
    prompts = [
        tokenizer.encode(prompt["text"]).ids for prompt in cut_prompts(corpus, tokenizer, 80)
    ]
    acceptance, written = simulate(target, drafter, prompts, new_tokens=96)
    report.measured["held_out_prompts"] = {
        "accept_length": acceptance.accept_length,
        "per_position": acceptance.per_position,
        "histogram": acceptance.histogram,
        "distinct_share": distinct_share(torch.stack(written)),
    }
    log(f"done: {report.measured}")
    return report


def encode(files: Iterable[SourceFile], tokenizer: Tokenizer) -> Tensor:
    """Encode files one after the other, each between `<s>` and `</s>`: ids [N]."""
    pieces = tokenizer.encode_batch([file.text for file in files])
    return torch.tensor([token for piece in pieces for token in (BOS_ID, *piece.ids, EOS_ID)])


@torch.no_grad()
def held_out_loss(target: LlamaForCausalLM, ids: Tensor, recipe: Recipe) -> float:
    """Cross-entropy a token on the first windows of held-out ids [N]."""
    length = recipe.target_schedule.length + 1
    rows = ids[: len(ids) // length * length].view(-1, length)[:128]
    logits = target(input_ids=rows[:, :-1], use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


def write_texts(target: LlamaForCausalLM, ids: Tensor, recipe: Recipe) -> Tensor:
    """Let the target write what the drafter is trained on, int16 [texts, length + unroll].

    What is served is the target's own greedy text, and so is this, begun with training text.
    """
    generator = torch.Generator().manual_seed(recipe.seed)
    total = recipe.drafter_schedule.length + recipe.unroll
    batch = 128
    rows = []
    for index in range(recipe.texts // batch):
        length = recipe.prompt_tokens[index % len(recipe.prompt_tokens)]
        starts = torch.randint(len(ids) - length, (batch, 1), generator=generator)
        rows.append(generate(target, ids[starts + torch.arange(length)], total - length).short())
    return torch.cat(rows)


def start_drafter(target: LlamaForCausalLM, texts: Tensor, recipe: Recipe) -> Drafter:
    """Build a drafter over the most frequent tokens; head and norm begin as the target's."""
    shape = recipe.target
    counts = torch.bincount(texts.flatten().long(), minlength=shape.vocab_size)
    kept = counts.topk(recipe.draft_vocab_size).indices.sort().values
    config = DrafterConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=recipe.drafter_intermediate_size,
        num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads,
        head_dim=shape.head_dim,
        vocab_size=shape.vocab_size,
        draft_vocab_size=recipe.draft_vocab_size,
        max_position_embeddings=shape.max_position_embeddings,
        rms_norm_eps=shape.rms_norm_eps,
        rope_theta=shape.rope_theta,
    )
    drafter = Drafter(config, target.get_input_embeddings().weight, kept)
    with torch.no_grad():
        drafter.lm_head.weight.copy_(target.lm_head.weight[kept])
        drafter.norm.weight.copy_(target.model.norm.weight)
    return drafter
