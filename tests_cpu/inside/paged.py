"""Sequences scattered over KV buffers, and attention over them written out in loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

SCALING = 0.4
Vector = list[float]


def naive(
    query: list[Vector],
    keys: list[list[Vector]],
    values: list[list[Vector]],
    *,
    logit_cap: float = 0.0,
    sinks: Vector | None = None,
) -> list[Vector]:
    """One token: query[head][width], keys and values[visible token][kv head][width]."""
    out = []
    for head, q in enumerate(query):
        kv_head = head * len(keys[0]) // len(query)
        total = math.exp(sinks[head]) if sinks is not None else 0.0
        mixed = [0.0] * len(values[0][0])
        for key, value in zip(keys, values, strict=True):
            logit = SCALING * sum(a * b for a, b in zip(q, key[kv_head], strict=True))
            if logit_cap > 0:
                logit = logit_cap * math.tanh(logit / logit_cap)
            weight = math.exp(logit)
            total += weight
            mixed = [m + weight * v for m, v in zip(mixed, value[kv_head], strict=True)]
        out.append([m / total for m in mixed])
    return out


@dataclass
class Paged:
    """Sequences scattered over KV buffers; ``keys`` and ``values`` hold them in order."""

    lengths: list[int]
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    table: torch.Tensor
    rows: torch.Tensor

    def slots(self, request: int) -> torch.Tensor:
        return self.table[self.rows[request], : self.lengths[request]].long()


def paged(
    lengths: list[int], kv_heads: int = 2, widths: tuple[int, int] = (4, 4), *, mla: bool = False
) -> Paged:
    """Random sequences; every slot and table entry that belongs to none is poisoned."""
    slots = torch.randperm(sum(lengths) + 3)
    k_buffer = torch.full((len(slots), kv_heads, widths[0]), math.nan)
    v_buffer = (
        k_buffer[..., : widths[1]]
        if mla
        else torch.full((len(slots), kv_heads, widths[1]), math.nan)
    )
    rows = torch.randperm(len(lengths) + 2)[: len(lengths)]
    table = torch.full((len(lengths) + 2, max(lengths) + 5), int(slots[-1]), dtype=torch.int32)
    keys, values, start = [], [], 0
    for row, length in zip(rows, lengths, strict=True):
        own = slots[start : start + length]
        start += length
        table[row, :length] = own.int()
        k_buffer[own] = torch.randn(length, kv_heads, widths[0])
        if not mla:
            v_buffer[own] = torch.randn(length, kv_heads, widths[1])
        keys.append(k_buffer[own].clone())
        values.append(v_buffer[own].clone())
    return Paged(lengths, keys, values, k_buffer, v_buffer, table, rows)


def extend(kernels: Any, cache: Paged, news: list[int], query: torch.Tensor, **options: Any) -> Any:
    """Call the kernel as SGLang does, by position; returns its output."""
    output = torch.full((*query.shape[:2], options.get("value_width", 4)), math.nan)
    kernels.extend_attention_cpu(
        query,
        options.get("k"),
        options.get("v"),
        output,
        cache.k_buffer,
        cache.v_buffer,
        1.0,
        options.get("v_scale", 1.0),
        cache.table,
        cache.rows,
        torch.tensor(cache.lengths),
        torch.tensor(news, dtype=torch.int32),
        torch.tensor([sum(news[:r]) for r in range(len(news))], dtype=torch.int32),
        max(news),
        SCALING,
        options.get("logit_cap", 0.0),
        options.get("cross", False),
        options.get("window", 0),
        None,
        options.get("sinks"),
        options.get("tree_mask"),
        options.get("causal", True),
    )
    return output


def decode(kernels: Any, cache: Paged, query: torch.Tensor, **options: Any) -> Any:
    """Call the kernel as SGLang does, by position; returns its output."""
    output = torch.full((*query.shape[:2], options.get("value_width", 4)), math.nan)
    kernels.decode_attention_cpu(
        query,
        cache.k_buffer,
        cache.v_buffer,
        1.0,
        1.0,
        output,
        options.get("k"),
        options.get("v"),
        options.get("loc", torch.zeros(0, dtype=torch.int64)),
        torch.zeros(0),
        cache.table,
        cache.rows,
        torch.tensor(cache.lengths),
        SCALING,
        options.get("logit_cap", 0.0),
        False,
        options.get("window", 0),
        None,
        options.get("sinks"),
    )
    return output


def assert_extend(
    output: torch.Tensor,
    cache: Paged,
    news: list[int],
    query: torch.Tensor,
    visible: Any,
    **options: Any,
) -> None:
    """Compare with ``naive``; visible(request, position, of) says who sees whom."""
    token = 0
    for request, new in enumerate(news):
        length = cache.lengths[request]
        for position in range(length - new, length):
            seen = [of for of in range(length) if visible(request, position, of)]
            keys, values = cache.keys[request][seen], cache.values[request][seen]
            wanted = naive(query[token].tolist(), keys.tolist(), values.tolist(), **options)
            torch.testing.assert_close(output[token], torch.tensor(wanted))
            token += 1


def causal(_request: int, position: int, of: int) -> bool:
    return of <= position
