"""Defects of a running server: files and flags are healthy, and what is done with them is not."""

from __future__ import annotations

from functools import partial

from eagle3_checks.reference.defects.defect import Defect

Server = partial(Defect, where="server", served=True)

DEFECTS: tuple[Defect, ...] = (
    Server(
        name="server-shifted-layers",
        title="each aux state is that of the layer after the one asked for",
        kind="aux-convention",
        cause="aux-layers",
        served_codes=("WIR004",),
        damage="shifted-layers",
    ),
    Server(
        name="server-swapped-states",
        title="the aux states come in reverse order",
        kind="aux-order",
        cause="aux-order",
        served_codes=("ACC001", "WIR004"),
        damage="swapped-states",
    ),
    Server(
        name="server-no-residual",
        title="the aux states come without the residual",
        kind="aux-residual",
        cause="residual",
        served_codes=("ACC001", "WIR004"),
        damage="no-residual",
    ),
    Server(
        name="server-partial-sums",
        title="each aux state holds what one of two ranks contributed to the last sum",
        kind="aux-partial-sum",
        cause="partial-sums",
        served_codes=("WIR004",),
        damage="partial-sums",
    ),
    Server(
        name="server-one-state",
        title="one aux state alone is handed on: fc is skipped",
        kind="fusion-skipped",
        cause="fusion",
        served_codes=("WIR003", "ACC001"),
        damage="one-state",
    ),
    Server(
        name="server-wrong-embedding",
        title="the drafter's embedding is moved by one row",
        kind="embedding-discarded",
        cause="embedding",
        served_codes=("ACC001", "WIR006"),
        damage="wrong-embedding",
    ),
    Server(
        name="server-wrong-head",
        title="the drafter's head is moved by one row",
        kind="head-order",
        cause="loaded-weights",
        served_codes=("WIR008", "ACC001"),
        damage="wrong-head",
    ),
    Server(
        name="server-zeroed-layer",
        title="the decoder layer is zero, as after a transfer that brought none",
        kind="weights-overwritten",
        cause="loaded-weights",
        served_codes=("WIR008", "ACC001"),
        damage="zeroed-layer",
    ),
    Server(
        name="server-noisy-weights",
        title="the drafter's matrices carry as much noise as signal",
        kind="weights-overwritten",
        cause="loaded-weights",
        served_codes=("WIR008", "ACC001"),
        damage="noisy-weights",
    ),
    Server(
        name="server-wrong-drafts",
        title="a wrong draft is accepted now and then",
        kind="text-garbled",
        cause="losslessness",
        served_codes=("LOS001",),
        damage="accepts-wrong-drafts",
    ),
    Server(
        name="server-token-zero",
        title="part of every answer is token 0",
        kind="text-garbled",
        cause="losslessness",
        served_codes=("LOS001", "LOS006"),
        damage="token-zero",
    ),
)
