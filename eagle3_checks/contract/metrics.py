"""Names under which a version reports a request's acceptance counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MetaNames:
    """Keys of ``meta_info``; None where that version does not report the value.

    The counts leave the bonus token out in every version: correct drafts are accepted draft
    tokens, and ``histogram[i]`` counts the verify steps with exactly i of them. The keys are
    absent from an answer that took no verify step, or zero before 0.5.7.

    History: 0.5.5.post3 ``spec_accept_token_num``/``spec_draft_token_num``; 0.5.9
    ``spec_accept_histogram``; 0.5.11 ``spec_accepted_drafts``/``spec_proposed_drafts``; 0.5.12
    ``spec_num_correct_drafts``/``spec_num_proposed_drafts``/``spec_correct_drafts_histogram``,
    with the 0.5.11 names as aliases until 0.5.20.

    Source: sglang/srt/managers/tokenizer_manager.py, ``_calculate_spec_decoding_metrics``.
    """

    verify: str
    correct: str | None = None
    proposed: str | None = None
    histogram: str | None = None
    accept_length: str | None = None
    """The server's own completion tokens / verify steps, bonus and prefill token included."""
    accept_rate: str | None = None
    rate_denominator: str | None = None
    """What a verify step counts for in the server's own rate: ``steps`` or ``draft-tokens - 1``."""
