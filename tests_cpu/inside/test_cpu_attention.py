"""Attention kernels against softmax attention written out in loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests_cpu.inside.paged import SCALING, assert_extend, causal, decode, extend, naive, paged

requests = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=4)
seeds = st.integers(0, 2**16)


@pytest.mark.parametrize("new_tokens", ["given", "in the buffers"])
@given(requests=requests, heads=st.sampled_from([2, 4, 6]), seed=seeds)
@settings(max_examples=25, deadline=None)
def test_extend_is_causal_over_prefix_and_new_tokens(
    kernels: Any, new_tokens: str, requests: list[tuple[int, int]], heads: int, seed: int
) -> None:
    torch.manual_seed(seed)
    news = [new for _, new in requests]
    cache = paged([prefix + new for prefix, new in requests])
    query = torch.randn(sum(news), heads, 4)
    given_kv: dict[str, Any] = {}
    if new_tokens == "given":
        for name, source, buffer in (
            ("k", cache.keys, cache.k_buffer),
            ("v", cache.values, cache.v_buffer),
        ):
            given_kv[name] = torch.cat(
                [own[-new:] for own, new in zip(source, news, strict=True)]
            ).flatten(1)
            for request, new in enumerate(news):
                buffer[cache.slots(request)[-new:]] = math.nan
    output = extend(kernels, cache, news, query, **given_kv)
    assert_extend(output, cache, news, query, causal)


@given(
    prefixes=st.lists(st.integers(0, 5), min_size=1, max_size=4), new=st.integers(1, 5), seed=seeds
)
@settings(max_examples=30, deadline=None)
def test_verify_follows_the_tree_mask(
    kernels: Any, prefixes: list[int], new: int, seed: int
) -> None:
    torch.manual_seed(seed)
    news = [new] * len(prefixes)
    cache = paged([prefix + new for prefix in prefixes])
    query = torch.randn(sum(news), 4, 4)
    mask = torch.rand(len(prefixes), new, new) < 0.5
    mask |= torch.eye(new, dtype=torch.bool)
    output = extend(kernels, cache, news, query, tree_mask=mask.flatten())

    def visible(request: int, position: int, of: int) -> bool:
        prefix = prefixes[request]
        return of < prefix or bool(mask[request, position - prefix, of - prefix])

    assert_extend(output, cache, news, query, visible)


def test_tree_masks_of_different_sizes_lie_one_after_the_other(kernels: Any) -> None:
    news = [2, 3]
    cache = paged([4, 5])
    query = torch.randn(5, 2, 4)
    masks = [torch.eye(new, dtype=torch.bool) for new in news]
    output = extend(
        kernels, cache, news, query, tree_mask=torch.cat([mask.flatten() for mask in masks])
    )
    assert_extend(output, cache, news, query, lambda _, position, of: of < 2 or of == position)


def test_extend_with_latent_keys_that_hold_the_values(kernels: Any) -> None:
    news = [2, 2]
    cache = paged([5, 3], kv_heads=1, widths=(6, 4), mla=True)
    query = torch.randn(4, 4, 6)
    output = extend(kernels, cache, news, query)
    assert_extend(output, cache, news, query, causal)


def test_prompt_with_all_its_heads_beside_a_latent_buffer(kernels: Any) -> None:
    news = [3, 2]
    cache = paged(news, kv_heads=4, widths=(6, 4))
    query = torch.randn(5, 4, 6)
    key, value = torch.cat(cache.keys), torch.cat(cache.values)
    cache.k_buffer = torch.full((8, 1, 9), math.nan)
    cache.v_buffer = cache.k_buffer[..., :7]
    output = extend(kernels, cache, news, query, k=key, v=value)
    assert_extend(output, cache, news, query, causal)


def test_request_without_new_tokens_is_passed_over(kernels: Any) -> None:
    cache = paged([3, 4])
    query = torch.randn(2, 2, 4)
    output = extend(kernels, cache, [0, 2], query)
    assert_extend(output, cache, [0, 2], query, causal)


def test_encoder_attention_sees_the_whole_request_and_no_more(kernels: Any) -> None:
    news = [2, 2]
    cache = paged([5, 3])
    query = torch.randn(4, 2, 4)
    output = extend(kernels, cache, news, query, causal=False)
    assert_extend(output, cache, news, query, lambda *_: True)


@pytest.mark.parametrize("window", [1, 3])
def test_sliding_window_counts_the_token_itself(kernels: Any, window: int) -> None:
    cache = paged([7, 4])
    query = torch.randn(5, 2, 4)
    output = extend(kernels, cache, [3, 2], query, window=window)
    assert_extend(
        output,
        cache,
        [3, 2],
        query,
        lambda _, position, of: of <= position and position - of < window,
    )
    single = torch.randn(2, 2, 4)
    output = decode(kernels, cache, single, window=window)
    assert_extend(
        output, cache, [1, 1], single, lambda r, _, of: cache.lengths[r] - 1 - of < window
    )


@pytest.mark.parametrize("extra", [{"logit_cap": 0.7}, {"sinks": [0.3, -1.0, 0.0, 2.0]}])
def test_logit_cap_and_sinks(kernels: Any, extra: dict[str, Any]) -> None:
    options = {k: torch.tensor(v) if k == "sinks" else v for k, v in extra.items()}
    cache = paged([6, 3])
    query = torch.randn(4, 4, 4)
    output = extend(kernels, cache, [3, 1], query, **options)
    assert_extend(output, cache, [3, 1], query, causal, **extra)
    single = torch.randn(2, 4, 4)
    output = decode(kernels, cache, single, **options)
    assert_extend(output, cache, [1, 1], single, causal, **extra)


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    heads=st.sampled_from([2, 4, 6]),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_decode_stores_the_new_token_and_sees_all(
    kernels: Any, lengths: list[int], heads: int, seed: int
) -> None:
    torch.manual_seed(seed)
    cache = paged(lengths)
    loc = torch.stack([cache.slots(request)[-1] for request in range(len(lengths))])
    key = torch.stack([own[-1] for own in cache.keys])
    value = torch.stack([own[-1] for own in cache.values])
    cache.k_buffer[loc] = cache.v_buffer[loc] = math.nan
    query = torch.randn(len(lengths), heads, 4)
    output = decode(kernels, cache, query, k=key.flatten(1), v=value.flatten(1), loc=loc)
    assert_extend(output, cache, [1] * len(lengths), query, causal)
    assert torch.equal(cache.k_buffer[loc], key)
    assert torch.equal(cache.v_buffer[loc], value)


def test_decode_stores_latent_keys_once(kernels: Any) -> None:
    cache = paged([4, 2], kv_heads=1, widths=(6, 4), mla=True)
    loc = torch.stack([cache.slots(request)[-1] for request in range(2)])
    key = torch.stack([own[-1] for own in cache.keys])
    cache.k_buffer[loc] = math.nan
    query = torch.randn(2, 4, 6)
    # The value argument is not read: the key buffer holds the value already.
    output = decode(kernels, cache, query, k=key, v=torch.full((2, 1, 4), math.nan), loc=loc)
    assert_extend(output, cache, [1, 1], query, causal)


def test_broken_request_does_not_touch_its_neighbours(kernels: Any) -> None:
    cache = paged([2, 6, 3])
    cache.k_buffer[cache.slots(1)] = cache.v_buffer[cache.slots(1)] = math.nan
    cache.table[cache.rows[0], 2:] = cache.slots(1)[0].int()
    query = torch.randn(3, 2, 4)
    for output in (decode(kernels, cache, query), extend(kernels, cache, [1, 1, 1], query)):
        assert output[1].isnan().all()
        assert not output[[0, 2]].isnan().any()


def test_refuses_what_it_would_answer_wrongly(kernels: Any) -> None:
    cache = paged([2])
    query = torch.randn(1, 2, 4)
    with pytest.raises(NotImplementedError, match=r"extend_attention_cpu .* cross attention"):
        extend(kernels, cache, [1], query, cross=True)
    with pytest.raises(NotImplementedError, match=r"scaled KV cache .*0\.5"):
        extend(kernels, cache, [1], query, v_scale=0.5)


def test_half_precision_keeps_its_type(kernels: Any) -> None:
    cache = paged([4])
    cache.k_buffer, cache.v_buffer = cache.k_buffer.bfloat16(), cache.v_buffer.bfloat16()
    query = torch.randn(1, 2, 4, dtype=torch.bfloat16)
    output = torch.zeros(1, 2, 4, dtype=torch.bfloat16)
    kernels.decode_attention_cpu(
        query, cache.k_buffer, cache.v_buffer, 1.0, 1.0, output, None, None, torch.zeros(0),
        torch.zeros(0), cache.table, cache.rows, torch.tensor([4]), SCALING, 0.0, False, 0, None,
        None,
    )  # fmt: skip
    wanted = naive(query[0].tolist(), cache.keys[0].tolist(), cache.values[0].tolist())
    torch.testing.assert_close(output[0].float(), torch.tensor(wanted), atol=0.03, rtol=0.03)
