"""VOC: the draft vocabulary."""

from __future__ import annotations

from typing import Any

from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, tells, warns
from tests_cpu.rules.cases.tensors import HEAD, mask, offsets, weight, writing

WHOLE: dict[str, Any] = {"d2t": ..., "t2d": ..., HEAD: weight(128, 16)}
ZERO = ("I64", (64,), None)
EVERY_SECOND = range(0, 128, 2)
ABSOLUTE = [*range(1, 64, 2), *range(70, 102)]
"""64 ids that stay below 128 and differ even where the draft id is added to each."""


def tokenizer(ends: int | list[int], template: str, **special: int) -> Any:
    """Return an edit that gives the target a tokenizer with these special tokens."""
    decoder = {str(i): {"content": text, "special": True} for text, i in special.items()}
    content = {"added_tokens_decoder": decoder, "chat_template": template}
    both = (
        writing("target", "tokenizer_config.json", content),
        writing("target", "generation_config.json", {"eos_token_id": ends}),
    )

    def edit(*folders: Any) -> None:
        for write in both:
            write(*folders)

    return edit


CASES: tuple[Case, ...] = (
    fires("VOC001", "d2t is missing: draft_vocab_size 64 is below", tensors={"d2t": ...}),
    fires("VOC001", "d2t is [60]; draft_vocab_size is 64", tensors={"d2t": offsets(*[0] * 60)}),
    healthy("VOC001"),
    alike("VOC001", "no d2t needed", draft={"draft_vocab_size": 128}, tensors=WHOLE),
    fires("VOC002", "d2t is all zero: draft ids 0 to 63", tensors={"d2t": ZERO}),
    healthy("VOC002"),
    warns(
        "VOC002",
        "t2d keeps just these, as where a trainer was given no mapping",
        tensors={"d2t": ZERO, "t2d": mask(range(64))},
    ),
    alike(
        "VOC002",
        "all zero, and right",
        draft={"draft_vocab_size": 128},
        tensors={"d2t": offsets(*[0] * 128), "lm_head.weight": weight(128, 16), "t2d": ...},
    ),
    fires("VOC003", "out of the vocabulary", tensors={"d2t": offsets(*range(64, 128))}),
    fires(
        "VOC003", "d2t is F32; it must hold whole numbers", tensors={"d2t": weight(64, dtype="F32")}
    ),
    fires(
        "VOC003",
        "the 64 values of d2t are all different, as target ids are: they are the ids that t2d",
        draft={"vocab_size": 256},
        tensors={"d2t": offsets(*ABSOLUTE), "t2d": mask(ABSOLUTE, 256)},
    ),
    warns(
        "VOC003",
        "offsets repeat wherever two neighbouring ids are kept",
        draft={"vocab_size": 256},
        tensors={"d2t": offsets(*ABSOLUTE), "t2d": ...},
    ),
    healthy("VOC003", "64 distinct ids below 128"),
    alike(
        "VOC003",
        tensors={"d2t": offsets(*range(64)), "t2d": mask(EVERY_SECOND)},
    ),
    fires(
        "VOC004",
        "tie_word_embeddings is true and draft_vocab_size 64 differs from vocab_size 128",
        draft={"tie_word_embeddings": True},
    ),
    healthy("VOC004"),
    alike("VOC004", "tied, and", draft={"tie_word_embeddings": True, "draft_vocab_size": 128}),
    warns("VOC005", "t2d is all true, as before", tensors={"t2d": mask(range(128))}),
    warns("VOC005", "t2d is all false, as before", tensors={"t2d": mask(())}),
    warns(
        "VOC005", "t2d keeps 17 tokens; draft_vocab_size is 64", tensors={"t2d": mask(range(17))}
    ),
    healthy("VOC005", "t2d keeps 64 of 128 tokens"),
    alike("VOC005", draft={"draft_vocab_size": 128}, tensors={"t2d": mask(range(128))}),
    skips("VOC005", "there is no t2d", tensors={"t2d": ...}),
    fires(
        "VOC006",
        "d2t reaches target id 66; the target's vocab_size is 66",
        target={"vocab_size": 66},
    ),
    warns(
        "VOC006", "the drafter's vocab_size is 128, the target's 160", target={"vocab_size": 160}
    ),
    warns(
        "VOC006",
        "without d2t the rows from 100 on stand for ids that the target does not have",
        draft={"draft_vocab_size": 128},
        target={"vocab_size": 100},
        tensors=WHOLE,
    ),
    healthy("VOC006", "vocab_size 128"),
    skips("VOC006", "states no vocab_size", target={"vocab_size": ...}),
    tells(
        "VOC007",
        "(64 ids) lacks every end of an answer: 2 (</s>)",
        edit=tokenizer(2, "", **{"</s>": 2}),
    ),
    tells("VOC007", "lacks an end of an answer: 2 (?)", edit=tokenizer([2, 5], "")),
    tells(
        "VOC007",
        "lacks 1 token that the chat template names: 100 (<|user|>)",
        edit=tokenizer(4, "<|user|>{{ x }}</s>", **{"</s>": 4, "<|user|>": 100}),
    ),
    healthy(
        "VOC007",
        "1 end token and 2 tokens of",
        edit=tokenizer(4, "<a></s>", **{"</s>": 4, "<a>": 5}),
    ),
    alike("VOC007", edit=tokenizer(4, "{{ x }}", **{"</s>": 4, "<|unused|>": 100})),
    skips("VOC007", "needs the target's tokenizer files"),
    skips(
        "VOC007",
        "there is no d2t",
        draft={"draft_vocab_size": 128},
        tensors=WHOLE,
        edit=tokenizer(2, ""),
    ),
)
