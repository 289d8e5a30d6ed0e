"""Bookkeeping of KV slots: the request-to-slot table, draft slots, and the copy of KV entries.

Argument orders: ``sglang/kernels/ops/speculative/{cache_locs,eagle}.py``,
``sglang/kernels/ops/kvcache/cache_move.py``, ``sglang/srt/mem_cache/allocation.py`` and
``sglang/srt/layers/attention/intel_amx_backend.py`` of SGLang 0.5.23. ``req_to_token`` is the table
[pool rows, ``pool_len``] of slots; row ``req_pool_indices[r]`` belongs to request r.
"""

# The kernels' signatures are SGLang's.
# ruff: noqa: ARG001, PLR0913, PLR0917

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

from .signature import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


@kernel
def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Write the slots ``out_cache_loc``, in order, into each request's columns [start, end)."""
    done = 0
    for row, start, end in _spans(req_pool_indices, start_offset, end_offset):
        req_to_token[row, start:end] = out_cache_loc[done : done + end - start].to(
            req_to_token.dtype
        )
        done += end - start


@kernel
def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Read each request's columns [start, end) of the table, one after the other."""
    done = 0
    for row, start, end in _spans(req_pool_indices, start_offset, end_offset):
        out_cache_loc[done : done + end - start] = req_to_token[row, start:end]
        done += end - start


def _spans(rows: Tensor, starts: Tensor, ends: Tensor) -> Iterator[tuple[int, int, int]]:
    return zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)


@kernel
def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    speculative_num_steps: int,
) -> None:
    """Read the ``topk * steps`` slots that follow each request's ``seq_lens`` tokens."""
    column = seq_lens.unsqueeze(1) + torch.arange(topk * speculative_num_steps)
    slots = req_to_token[req_pool_indices.unsqueeze(1), column]
    out_cache_loc[: slots.numel()] = slots.flatten().to(out_cache_loc.dtype)


@kernel
def build_draft_decode_metadata_cpu(
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    topk: int,
    speculative_num_steps: int,
    pool_len: int,
) -> Tensor:
    """Table [requests * topk, pool_len]: the prefix, then that candidate's own ``steps`` slots.

    Candidate c of a request owns the c-th ``steps`` of the ``topk * steps`` slots that follow the
    prefix in ``req_to_token``. What comes behind is zero and never read.
    """
    steps = speculative_num_steps
    table = req_to_token.new_zeros(len(seq_lens) * topk, pool_len)
    for request, (row, length) in enumerate(
        zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)
    ):
        candidates = table[request * topk : (request + 1) * topk]
        candidates[:, :length] = req_to_token[row, :length]
        own = req_to_token[row, length : length + topk * steps]
        candidates[:, length : length + steps] = own.view(topk, steps)
    return table


@kernel
def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int
) -> None:
    """Pick each request's last accepted token; ``accept_lens`` counts the bonus token."""
    last = torch.arange(len(accept_lens)) * accept_stride + accept_lens - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


@kernel
def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor
) -> None:
    """Pack the slots of the accepted tokens (``accept_index`` not -1) to the front."""
    flat = accept_index.flatten()
    kept = out_cache_loc[flat[flat >= 0].long()]
    accept_out_cache_loc[: len(kept)] = kept


@kernel
def copy_all_layer_kv_cache_cpu(
    data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor
) -> None:
    """Copy slots ``src_loc`` to ``tgt_loc`` in every KV buffer.

    A buffer is an address in ``data_ptrs`` and its bytes per slot in ``strides``. All sources are
    read before a target is written: the two may overlap.
    """
    sources, targets = src_loc.tolist(), tgt_loc.tolist()
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        entries = [ctypes.string_at(base + source * stride, stride) for source in sources]
        for target, entry in zip(targets, entries, strict=True):
            ctypes.memmove(base + target * stride, entry, stride)
