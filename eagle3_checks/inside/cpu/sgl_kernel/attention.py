"""Attention over the paged KV buffers: extend (prompt, verify, draft extend) and decode.

Argument orders: ``sglang/srt/layers/attention/intel_amx_backend.py`` of SGLang 0.5.23.
"""

# The kernels' signatures are SGLang's.
# ruff: noqa: ARG001, FBT001, FBT002, PLR0913, PLR0917

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

from .signature import kernel, torch_op, unsupported

if TYPE_CHECKING:
    from torch import Tensor


@torch_op
@kernel
def extend_attention_cpu(
    q_extend: Tensor,
    k_extend: Tensor | None,
    v_extend: Tensor | None,
    o_extend: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window_size: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None = None,
    is_causal: bool = True,
) -> None:
    """Attend from each request's new tokens to its prefix and to themselves; fills ``o_extend``.

    ``q_extend`` [tokens, heads, key width] holds the new tokens of all requests: those of request r
    are the ``extend_seq_lens[r]`` from ``extend_start_loc[r]`` on. The slots of its ``seq_lens[r]``
    tokens, new ones last, stand in ``req_to_token[req_pool_indices[r]]``. Prefixes are read from
    the buffers [slots, kv heads, width], new tokens from ``k_extend`` and ``v_extend`` where given.
    ``tree_mask``, n x n per request and flattened, replaces causality among the n new tokens.
    ``sliding_window_size`` counts the tokens that a query sees, itself included; 0 is no window.
    """
    _refuse_unserved("extend_attention_cpu", is_cross_attn, encoder_lens, (k_scale, v_scale))
    news, starts = extend_seq_lens.tolist(), extend_start_loc.tolist()
    uniform = starts == [row * news[0] for row in range(len(news))] and len(set(news)) == 1
    step = len(news) if uniform else 1
    mask_start = 0
    for first in range(0, len(news), step):
        rows, new = slice(first, first + step), news[first]
        tokens = slice(starts[first], starts[first] + step * new)
        lengths = seq_lens[rows].unsqueeze(1)
        length = int(lengths.max())
        column = torch.arange(length)
        position = lengths - new + torch.arange(new)
        new_key = new_value = None
        if k_extend is not None and v_extend is not None:
            new_key = k_extend[tokens].reshape(step, new, -1, q_extend.shape[-1])
            new_value = v_extend[tokens].reshape(step, new, -1, o_extend.shape[-1])
        if length == new and new_key is not None and new_value is not None:
            # A prompt under MLA comes with all its heads, while the buffers hold the latent alone.
            key, value = new_key, new_value
        else:
            slots = req_to_token[req_pool_indices[rows], :length]
            key, value = _gather(k_buffer, v_buffer, slots, lengths)
            if new_key is not None and new_value is not None:
                at = (torch.arange(step).unsqueeze(1), position)
                key[at], value[at] = new_key.to(key.dtype), new_value.to(value.dtype)
        behind = position.unsqueeze(2) - column
        visible = behind >= 0 if is_causal else (column < lengths.unsqueeze(2)).expand_as(behind)
        if tree_mask is not None:
            block = tree_mask[mask_start : mask_start + step * new * new].view(step, new, new)
            mask_start += block.numel()
            visible = visible.scatter(2, position.unsqueeze(1).expand_as(block), block.bool())
        if sliding_window_size > 0:
            visible = visible & (behind < sliding_window_size)
        query = q_extend[tokens].view(step, new, *q_extend.shape[1:])
        out = _attend(query, key, value, visible, sm_scale, logit_cap, sinks)
        o_extend[tokens] = out.flatten(0, 1)


@torch_op
@kernel
def decode_attention_cpu(
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    output: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    loc: Tensor,
    attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window_size: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
) -> None:
    """Store ``key`` and ``value`` in slots ``loc``, then attend with one query per row.

    ``query`` [rows, heads, key width], ``output`` [rows, heads, value width]; row r sees the slots
    ``req_to_token[req_pool_indices[r], : seq_lens[r]]``. Under MLA the value buffer is a view into
    the key buffer and the key holds the value, so that the key alone is stored.
    """
    _refuse_unserved("decode_attention_cpu", is_cross_attn, encoder_lens, (k_scale, v_scale))
    if key is not None and value is not None:
        k_buffer[loc] = key.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        if v_buffer.data_ptr() != k_buffer.data_ptr():
            v_buffer[loc] = value.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    lengths = seq_lens.unsqueeze(1)
    slots = req_to_token[req_pool_indices, : int(lengths.max())]
    keys, values = _gather(k_buffer, v_buffer, slots, lengths)
    column = torch.arange(slots.shape[1])
    visible = column < lengths
    if sliding_window_size > 0:
        visible &= column >= lengths - sliding_window_size
    out = _attend(
        query.unsqueeze(1), keys, values, visible.unsqueeze(1), sm_scale, logit_cap, sinks
    )
    output.copy_(out.squeeze(1))


def _refuse_unserved(
    name: str,
    is_cross_attn: bool,
    encoder_lens: Tensor | None,
    scales: tuple[float, float],
) -> None:
    """Fail on what these kernels would answer wrongly."""
    if is_cross_attn or encoder_lens is not None:
        raise unsupported(name, "cross attention")
    if scales != (1.0, 1.0):
        raise unsupported(name, f"scaled KV cache (scales {scales})")


def _gather(
    k_buffer: Tensor, v_buffer: Tensor, slots: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Keys and values [rows, length, kv heads, width] of ``slots`` [rows, length].

    Rows are padded to the longest. Padding is zeroed, for it may point at the NaN of another
    request, and a mask does not stop NaN.
    """
    slots = slots.long()
    key, value = k_buffer[slots], v_buffer[slots]
    if len(lengths) > 1:
        padding = (torch.arange(slots.shape[1]) >= lengths)[:, :, None, None]
        key.masked_fill_(padding, 0)
        value.masked_fill_(padding, 0)
    return key, value


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor,
    scaling: float,
    logit_cap: float,
    sinks: Tensor | None,
) -> Tensor:
    """Attention with grouped heads.

    ``query`` [rows, new, heads, key width], ``key`` and ``value`` [rows, length, kv heads, their
    own width], ``visible`` bool [rows, new, length]; returns [rows, new, heads, value width].
    """
    query, key, value = (x.to(query.dtype).transpose(1, 2) for x in (query, key, value))
    visible = visible.unsqueeze(1)
    if logit_cap <= 0 and sinks is None:
        return scaled_dot_product_attention(
            query, key, value, attn_mask=visible, scale=scaling, enable_gqa=True
        ).transpose(1, 2)
    groups = query.shape[1] // key.shape[1]
    key, value = (x.float().repeat_interleave(groups, dim=1) for x in (key, value))
    scores = (query.float() @ key.transpose(-1, -2)) * scaling
    if logit_cap > 0:
        scores = logit_cap * torch.tanh(scores / logit_cap)
    scores = scores.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        # A sink is one more logit per head in the denominator; it carries no value.
        sink = sinks.float().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    weights = scores.softmax(dim=-1)[..., : key.shape[2]]
    return (weights @ value).to(query.dtype).transpose(1, 2)
