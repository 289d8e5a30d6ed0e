"""Bookkeeping kernels against loops over lists."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

WIDTH = 24
spans = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=4)
seeds = st.integers(0, 2**16)


def pool(requests: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A table of distinct slots and the rows of the requests in it."""
    rows = requests + 2
    table = torch.randperm(rows * WIDTH, dtype=torch.int32).view(rows, WIDTH)
    return table, torch.randperm(rows)[:requests]


@given(spans=spans, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_table_is_written_and_read_back(
    kernels: Any, spans: list[tuple[int, int]], seed: int
) -> None:
    torch.manual_seed(seed)
    table, rows = pool(len(spans))
    before = table.tolist()
    start = torch.tensor([at for at, _ in spans], dtype=torch.int32)
    end = torch.tensor([at + count for at, count in spans], dtype=torch.int32)
    slots = torch.arange(1000, 1000 + sum(count for _, count in spans))
    kernels.assign_req_to_token_pool_cpu(rows, table, start, end, slots, WIDTH)

    todo = slots.tolist()
    for row, (at, count) in zip(rows.tolist(), spans, strict=True):
        for column in range(at, at + count):
            before[row][column] = todo.pop(0)
    assert table.tolist() == before

    read = torch.full((len(slots) + 2,), -7)
    kernels.assign_extend_cache_locs_cpu(rows, table, start, end, read, WIDTH)
    assert read.tolist() == [*slots.tolist(), -7, -7]


@given(
    lengths=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    topk=st.integers(1, 4),
    steps=st.integers(1, 4),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_draft_slots_follow_the_prefix(
    kernels: Any, lengths: list[int], topk: int, steps: int, seed: int
) -> None:
    torch.manual_seed(seed)
    table, rows = pool(len(lengths))
    seq_lens = torch.tensor(lengths)
    out = torch.full((len(lengths) * topk * steps,), -7)
    kernels.assign_draft_cache_locs_contiguous_cpu(rows, table, seq_lens, out, WIDTH, topk, steps)
    wanted = []
    for row, length in zip(rows.tolist(), lengths, strict=True):
        wanted += table.tolist()[row][length : length + topk * steps]
    assert out.tolist() == wanted

    expanded = kernels.build_draft_decode_metadata_cpu(table, rows, seq_lens, topk, steps, WIDTH)
    assert expanded.shape == (len(lengths) * topk, WIDTH)
    assert expanded.dtype == table.dtype
    got = expanded.tolist()
    for request, length in enumerate(lengths):
        for candidate in range(topk):
            line = got[request * topk + candidate]
            source = table.tolist()[rows.tolist()[request]]
            assert line[:length] == source[:length]
            for step in range(steps):
                assert line[length + step] == source[length + candidate * steps + step]


@given(lens=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=seeds)
@settings(max_examples=30, deadline=None)
def test_bonus_token_is_the_last_accepted(kernels: Any, lens: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    tokens = torch.randint(100, (len(lens), 4), dtype=torch.int32)
    bonus = torch.zeros(len(lens), dtype=torch.int32)
    kernels.fill_bonus_tokens_cpu(tokens, torch.tensor(lens, dtype=torch.int32), bonus, 4)
    assert bonus.tolist() == [
        row[count - 1] for row, count in zip(tokens.tolist(), lens, strict=True)
    ]


@given(index=st.lists(st.integers(-1, 9), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_accepted_slots_are_packed(kernels: Any, index: list[int]) -> None:
    slots = torch.randperm(50)[:10]
    out = torch.full((12,), -7)
    kernels.fill_accept_out_cache_loc_cpu(torch.tensor(index, dtype=torch.int32), slots, out)
    kept = [slots.tolist()[at] for at in index if at != -1]
    assert out.tolist() == kept + [-7] * (12 - len(kept))


@given(
    pairs=st.integers(0, 6).flatmap(
        lambda count: st.tuples(
            st.permutations(range(8)).map(lambda slots: slots[:count]),
            st.lists(st.integers(0, 7), min_size=count, max_size=count),
        )
    ),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_every_layer_is_copied_as_if_at_once(
    kernels: Any, pairs: tuple[list[int], list[int]], seed: int
) -> None:
    torch.manual_seed(seed)
    targets, sources = pairs
    buffers = [
        torch.randn(8, 2, 3),
        torch.randn(8, 1, 5, dtype=torch.float64),
        torch.randint(9, (8, 2), dtype=torch.int16),
    ]
    wanted = [buffer.tolist() for buffer in buffers]
    for layer in wanted:
        read = [layer[source] for source in sources]
        for target, entry in zip(targets, read, strict=True):
            layer[target] = entry
    kernels.copy_all_layer_kv_cache_cpu(
        torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64),
        torch.tensor([buffer[0].nbytes for buffer in buffers]),
        torch.tensor(targets, dtype=torch.int64),
        torch.tensor(sources, dtype=torch.int64),
    )
    assert [buffer.tolist() for buffer in buffers] == wanted
