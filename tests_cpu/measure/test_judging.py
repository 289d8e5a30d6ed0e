from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from eagle3_checks.facts import RequestSample
from eagle3_checks.measure.judging import Inquiry, LengthFloor, NotWorse, RateFloor, key
from eagle3_checks.verdict import Judgement, Outcome


def prompt(number: int, steps: int, correct: int) -> RequestSample:
    return RequestSample(
        prompt_id=str(number),
        prompt_set="s",
        prompt_tokens=9,
        completion_tokens=1 + steps + correct,
        verify_steps=steps,
        correct_drafts=correct,
        proposed_drafts=3 * steps,
        histogram=None,
    )


def prompts(length: float, count: int = 80, spread: float = 0.3) -> list[RequestSample]:
    """Draw prompts of 255 tokens after the first, with accept lengths around one value."""
    draw = random.Random(7)  # noqa: S311 - seeded data
    found = []
    for number in range(count):
        steps = round(255 / max(1.0, draw.gauss(length, spread)))
        found.append(prompt(number, steps, 255 - steps))
    return found


def run(inquiry: Inquiry, samples: Sequence[RequestSample]) -> tuple[Judgement, int]:
    """Look as a measurement does; returns the verdict and the number of prompts sent."""
    for number, size in enumerate(inquiry.looks):
        if inquiry.look(number, samples[:size]):
            break
    return inquiry.judged["q"], size


def ask(
    floor: float, samples: Sequence[RequestSample], *, sequential: bool = True
) -> tuple[Judgement, int]:
    inquiry = Inquiry(
        questions={"q": LengthFloor(floor=floor)},
        planned=len(samples),
        concurrency=4,
        sequential=sequential,
    )
    return run(inquiry, samples)


def test_a_dead_drafter_is_found_in_one_batch() -> None:
    judged, sent = ask(2.0, prompts(1.0, spread=0.0))
    assert (judged.outcome, sent) == (Outcome.MISSED, 4)
    assert judged.value == 1.0
    assert judged.interval.high < 2.0


def test_a_clear_pass_ends_early_and_a_close_one_does_not() -> None:
    clear, sent = ask(1.6, prompts(2.4))
    assert clear.outcome is Outcome.REACHED
    assert sent <= 20
    close, sent = ask(2.4, prompts(2.4))
    assert close.outcome is Outcome.OPEN
    assert (sent, close.prompts, close.planned) == (80, 80, 80)
    assert close.interval.low < 2.4 < close.interval.high


def test_few_equal_prompts_are_not_certain() -> None:
    alike = [prompt(n, 100, 110) for n in range(4)]
    assert ask(2.0, alike)[0].outcome is Outcome.OPEN
    assert ask(2.0, [prompt(n, 100, 110) for n in range(80)])[0].outcome is Outcome.REACHED


def test_without_early_looks_all_prompts_are_sent() -> None:
    judged, sent = ask(1.6, prompts(2.4), sequential=False)
    assert (judged.outcome, judged.looks, sent) == (Outcome.REACHED, 1, 80)


def test_the_rate_says_what_the_length_says() -> None:
    for length in (1.7, 2.0, 2.3):
        samples = prompts(length)
        by_length, sent = ask(2.0, samples)
        question = RateFloor(floor=1 / 3, proposed=3)
        by_rate, sent_too = run(
            Inquiry(questions={"q": question}, planned=80, concurrency=4), samples
        )
        assert (by_rate.outcome, sent_too) == (by_length.outcome, sent)
        assert by_rate.value == pytest.approx((by_length.value - 1) / 3)
        assert by_rate.interval.low == pytest.approx((by_length.interval.low - 1) / 3)


def test_what_is_certain_stays_so() -> None:
    good, bad = prompts(3.0), prompts(1.0)
    questions = {"q": LengthFloor(floor=2.0), "open": LengthFloor(floor=3.0)}
    inquiry = Inquiry(questions=questions, planned=80, concurrency=4)
    assert not inquiry.look(1, good[:8])
    assert inquiry.judged["q"].outcome is Outcome.REACHED
    inquiry.look(9, [*good[:8], *bad[8:60]])
    assert inquiry.judged["q"].outcome is Outcome.REACHED
    assert inquiry.judged["q"].prompts == 8


def worse(samples: Sequence[RequestSample], loss: float) -> list[RequestSample]:
    """The same prompts with this share more verify steps, and so that much less accept length."""
    draw = random.Random(3)  # noqa: S311 - seeded data
    changed = []
    for s in samples:
        steps = round(s.verify_steps / (1 - loss) * draw.gauss(1, 0.05))
        changed.append(replace(s, verify_steps=steps, correct_drafts=255 - steps))
    return changed


def against(samples: Sequence[RequestSample], earlier: Sequence[RequestSample]) -> Judgement:
    counts = {key(s): (s.verify_steps, s.correct_drafts) for s in earlier}
    question = NotWorse(baseline=counts, margin=0.03)
    return run(Inquiry(questions={"q": question}, planned=80, concurrency=4), samples)[0]


def test_pairs_show_what_the_spread_between_prompts_hides() -> None:
    earlier = prompts(2.4, spread=0.6)
    assert against(earlier, earlier).outcome is Outcome.REACHED
    lost = against(worse(earlier, 0.10), earlier)
    assert lost.outcome is Outcome.MISSED
    assert lost.value == pytest.approx(-0.10, abs=0.03)
    assert against(worse(earlier, -0.10), earlier).outcome is Outcome.REACHED
    # Unpaired, ten per cent are within what other prompts would make.
    assert ask(2.4 * 0.97, worse(earlier, 0.10))[0].detectable > lost.detectable * 2.4


def test_prompts_that_the_baseline_lacks_are_left_out() -> None:
    earlier = prompts(2.4)
    judged = against([*earlier[:40], *(replace(s, prompt_set="other") for s in earlier)], earlier)
    assert judged.prompts <= 40
    none = NotWorse(baseline={}, margin=0.03)
    inquiry = Inquiry(questions={"q": none}, planned=80)
    assert not inquiry.look(0, earlier)
    assert inquiry.judged == {}


def test_no_steps_are_no_verdict() -> None:
    inquiry = Inquiry(questions={"q": LengthFloor(floor=2.0)}, planned=8)
    assert not inquiry.look(0, [prompt(n, 0, 0) for n in range(8)])
    assert inquiry.judged == {}
