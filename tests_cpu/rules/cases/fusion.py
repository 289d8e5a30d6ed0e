"""FUS: the fusion layer, and the layers that the target captures."""

from __future__ import annotations

from typing import Any

from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, warns
from tests_cpu.rules.cases.tensors import IDS, weight

NO_AUX = {"eagle_config": {"use_aux_hidden_state": False}}
KIMI = {"architectures": ["KimiK25ForConditionalGeneration"]}
GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "num_hidden_layers": 24,
}


def stated(*layers: int) -> dict[str, Any]:
    return {"eagle_config": {IDS: list(layers)}}


CASES: tuple[Case, ...] = (
    fires(
        "FUS001",
        "fc.weight is [16, 16]; SGLang builds [16, 48]",
        tensors={"fc.weight": weight(16, 16)},
    ),
    healthy("FUS001"),
    alike(
        "FUS001",
        draft={"eagle_config": {IDS: [0, 1, 2, 3, 4]}},
        tensors={"fc.weight": weight(16, 80)},
    ),
    fires("FUS002", "fc.weight is missing", tensors={"fc.weight": ...}),
    healthy("FUS002"),
    skips("FUS002", "takes no aux states", draft=NO_AUX, tensors={"fc.weight": ...}),
    fires("FUS003", "which equals hidden_size 16", draft={"num_aux_hidden_states": 1}),
    healthy("FUS003"),
    alike("FUS003", draft={"num_aux_hidden_states": 1, "target_hidden_size": 32}),
    fires("FUS004", "the drafter's hidden_size is 16; the target's", target={"hidden_size": 32}),
    healthy("FUS004"),
    alike("FUS004", draft={"target_hidden_size": 32}, target={"hidden_size": 32}),
    fires("FUS005", "1 state of 3 arrives", target={"num_hidden_layers": 5}),
    fires(
        "FUS005",
        "aux layer ids: 1, 1, 3, so 2 states of 3 arrive",
        draft={"eagle_config": {IDS: [1, 1, 3]}},
    ),
    healthy("FUS005"),
    alike("FUS005", draft={"eagle_config": {IDS: [0, 1, 2]}}, target={"num_hidden_layers": 5}),
    fires("FUS006", "cannot be told which layers to capture", version="0.5.9", target=KIMI),
    warns("FUS006", "", target={"architectures": ["LlamaForCausalLMOfAnother"]}),
    fires(
        "FUS006",
        "the target's architectures is LlamaForCausalLMEagle3, which is an EAGLE-3 drafter's",
        target={"architectures": ["LlamaForCausalLMEagle3"]},
    ),
    healthy("FUS006"),
    alike("FUS006", version="0.5.10", target=KIMI),
    fires("FUS007", "so 10 never comes", draft=stated(1, 3, 9)),
    healthy("FUS007", draft=stated(1, 3, 4)),
    alike("FUS007", draft=stated(0, 1, 6)),
    skips("FUS007", "no layer ids are stated"),
    fires("FUS008", "which SGLang 0.5.23 passes over", draft={IDS: [0, 1, 2]}),
    healthy("FUS008", draft=stated(1, 3, 4)),
    alike("FUS008", "the default is the same", draft={IDS: [2, 4, 5]}),
    warns("FUS009", "which suggests 2, 4, 5 was trained on", draft=stated(2, 4, 5)),
    healthy("FUS009", draft=stated(1, 3, 4)),
    alike("FUS009", draft=stated(3, 4, 6)),
    warns(
        "FUS010", "with CUDA graphs SGLang 0.5.9 hands over", version="0.5.9", draft=stated(0, 1, 2)
    ),
    healthy("FUS010", draft=stated(0, 1, 2)),
    alike("FUS010", "the default is the same", version="0.5.9", draft=stated(1, 3, 4)),
    warns(
        "FUS011", "SpecForge trains drafters of gpt_oss with 24 layers on 2, 12, 22", target=GPT_OSS
    ),
    healthy("FUS011"),
    alike("FUS011", target=GPT_OSS, draft=stated(1, 11, 21)),
)
