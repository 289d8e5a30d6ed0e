"""VAL: values of tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests_cpu.conftest import Spec, safetensors_bytes
from tests_cpu.rules.cases.case import Case, alike, fires, healthy, skips, warns
from tests_cpu.rules.cases.tensors import (
    EMBEDDING,
    HEAD,
    constant,
    learnt,
    noise,
    offsets,
    rows,
    trained,
)

NAN, INFINITY = b"\xc0\x7f", b"\x80\xff"
DOWN = "midlayer.mlp.down_proj.weight"
BLANK = ("BF16", (40, 16), bytes(40 * 32))
PRUNED = rows(*[noise(1, 16, seed=seed) for seed in (1, 2) for _ in range(32)])
"""A head cut by offset: the row of each of two offsets, 32 times."""
TWO_OFFSETS = offsets(*[3] * 32, *[9] * 32)
PADDED = {"draft_vocab_size": 128}
WHOLE: dict[str, Any] = {"d2t": ..., "t2d": ...}
OWN = {"target_hidden_size": 32}


def spoilt(element: bytes, *shape: int) -> Spec:
    """Return noise with one element replaced."""
    dtype, size, data = noise(*shape)
    assert data is not None
    return dtype, size, data[:6] + element + data[8:]


def target_embedding(spec: Spec) -> Callable[[Path, Path], None]:
    def edit(target: Path, drafter: Path) -> None:
        content = safetensors_bytes({f"model.{EMBEDDING}": spec})
        (target / "model.safetensors").write_bytes(content)

    return edit


def given(tensors: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the arguments for a trained drafter with changed tensors, its values read."""
    return {"values": True, "tensors": {**trained(), **(tensors or {})}, **more}


ROWS = noise(128, 16, seed=9)
CASES: tuple[Case, ...] = (
    fires(
        "VAL001",
        "midlayer.mlp.down_proj.weight: 1 of 384 elements are NaN or infinite",
        **given({DOWN: spoilt(NAN, 16, 24)}),
    ),
    fires("VAL001", "1 of 768 elements", **given({"fc.weight": spoilt(INFINITY, 16, 48)})),
    fires(
        "VAL001",
        "all elements are NaN or infinite, as before it is loaded",
        **given({HEAD: ("BF16", (64, 16), NAN * 1024)}),
    ),
    warns(
        "VAL001",
        "SGLang replaces it by the target's",
        **given({EMBEDDING: ("BF16", (128, 16), NAN * 2048)}),
    ),
    healthy("VAL001", "13 tensors, 2 others not judged", **given()),
    alike("VAL001", **given({DOWN: constant(3e38, 16, 24)})),
    skips("VAL001", "needs --values"),
    fires(
        "VAL002", "fc.weight [16, 48] is all zero", **given({"fc.weight": ("BF16", (16, 48), None)})
    ),
    fires(
        "VAL002",
        "40 of 64 rows of lm_head.weight are zero, as 24, 25, 26",
        **given({HEAD: rows(noise(24, 16), BLANK)}),
    ),
    warns(
        "VAL002",
        "1 of 64 rows of lm_head.weight are zero",
        **given({HEAD: rows(noise(63, 16), ("BF16", (1, 16), bytes(32)))}),
    ),
    fires(
        "VAL002",
        "fc.weight [16, 48] is all zero",
        **given({"fc.weight": constant(-0.0, 16, 48)}),
    ),
    fires(
        "VAL002",
        "40 of 64 rows of lm_head.weight are zero",
        **given({HEAD: rows(noise(24, 16), constant(-0.0, 40, 16))}),
    ),
    healthy("VAL002", **given()),
    alike("VAL002", draft={"bias": True}, **given({"fc.bias": ("BF16", (16,), None)})),
    alike("VAL002", draft=PADDED, **given({HEAD: rows(noise(88, 16), BLANK), **WHOLE})),
    fires(
        "VAL003",
        "62 of 64 rows of lm_head.weight repeat an earlier row, and 62 of them one "
        "with the same offset in d2t",
        **given({HEAD: PRUNED, "d2t": TWO_OFFSETS, "t2d": ...}),
    ),
    warns(
        "VAL003",
        "10 of 64 rows of lm_head.weight repeat an earlier row, as 54 = 0, 55 = 1",
        **given({HEAD: rows(noise(54, 16), noise(10, 16))}),
    ),
    healthy("VAL003", "64 rows, 0 of them repeated", **given()),
    alike(
        "VAL003",
        "10 of them repeated",
        draft=PADDED,
        **given({HEAD: rows(noise(118, 16), noise(10, 16)), **WHOLE}),
    ),
    warns(
        "VAL004",
        "fc.weight has a root mean square of 0.98",
        **given({"fc.weight": noise(16, 48, scale=1.0)}),
    ),
    warns(
        "VAL004", "root mean square of 9.8e+04", **given({"fc.weight": noise(16, 48, scale=1e5)})
    ),
    warns(
        "VAL004",
        "1 of 64 sampled rows of lm_head.weight are 20 times larger or smaller",
        **given({HEAD: rows(noise(63, 16), constant(0.5, 1, 16))}),
    ),
    warns(
        "VAL004",
        "246 of 256 sampled rows of lm_head.weight have the root mean square 0.0198 to within",
        **given({HEAD: learnt(256, spread=0.0)}),
    ),
    warns("VAL004", "how fresh random rows differ", **given({HEAD: learnt(256, fresh=128)})),
    healthy("VAL004", **given()),
    alike("VAL004", **given({HEAD: learnt(256)})),
    alike("VAL004", **given({HEAD: learnt(256, spread=0.1)})),
    alike("VAL004", **given({EMBEDDING: noise(128, 16, scale=1.0)})),
    warns(
        "VAL005",
        "norm.weight has a root mean square of 0.0001",
        **given({"norm.weight": constant(1e-4, 16)}),
    ),
    warns("VAL005", "root mean square of 4e+02", **given({"norm.weight": constant(400.0, 16)})),
    healthy("VAL005", "4 norms", **given()),
    warns("VAL005", "root mean square of 0.05", **given({"norm.weight": constant(0.05, 16)})),
    alike("VAL005", **given({"norm.weight": constant(12.0, 16)})),
    alike("VAL005", **given({"norm.weight": constant(0.2, 16)})),
    warns(
        "VAL006",
        "64 of 64 sampled rows of embed_tokens.weight differ from model.embed_tokens",
        edit=target_embedding(ROWS),
        **given({EMBEDDING: noise(128, 16, seed=8)}),
    ),
    healthy(
        "VAL006",
        "64 sampled rows equal model.embed_tokens.weight",
        edit=target_embedding(ROWS),
        **given({EMBEDDING: ROWS}),
    ),
    alike(
        "VAL006",
        "is the drafter's own, and is kept",
        draft=OWN,
        target={"hidden_size": 32},
        edit=target_embedding(ROWS),
        **given({EMBEDDING: noise(128, 16, seed=8), "fc.weight": noise(16, 96)}),
    ),
    skips("VAL006", "needs an embedding in the drafter's file and the target's weights", **given()),
)
