"""A bisect whose launches are made up: what is measured longer, skipped, kept, blamed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.bisect.cache import Cache
from eagle3_checks.bisect.criterion import Criterion, CriterionError, contrast, figure, parse
from eagle3_checks.bisect.launch import Enough
from eagle3_checks.bisect.points import Point
from eagle3_checks.bisect.readings import Counts, Reading, from_json, to_json
from eagle3_checks.bisect.run import Bisect, Outcome
from eagle3_checks.facts import Interval
from eagle3_checks.measure.statistics import ratio_interval
from eagle3_checks.profile import Resolved
from eagle3_checks.settings import resolve
from tests_cpu.bisect.conftest import Drafters

STEPS = 20


def reading(correct: Sequence[int], *, whole: bool = True, trouble: str = "") -> Reading:
    counts = tuple(
        Counts(
            prompt_set="s",
            prompt_id=str(i),
            verify_steps=STEPS,
            correct=c,
            proposed=3 * STEPS,
            histogram=(STEPS - c, c, 0, 0) if c <= STEPS else None,
        )
        for i, c in enumerate(correct)
    )
    return Reading(counts=counts, whole=whole, trouble=trouble)


Told = Callable[[int, int], Reading | list[Reading]]


class Launches:
    """Gives a reading for each point and launch; a list is measured longer entry by entry."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.seen: list[int] = []

    def __call__(self, resolved: Resolved, _: Criterion, __: Path, enough: Enough) -> Reading:
        point = int(Path(resolved.profile.drafter.path).name.rpartition("-")[2])
        self.seen.append(point)
        found = self.told(point, self.seen.count(point))
        for entry in found if isinstance(found, list) else [found]:
            if entry.trouble or entry.whole or enough(entry):
                break
        return entry


def bisect(
    folders: Sequence[Path], launches: Launches, by: str = "accept-length", **more: float
) -> Outcome:
    points = [Point(name=f.name, overrides={"drafter.path": str(f)}) for f in folders]

    def resolved(point: Point) -> Resolved:
        return resolve("tiny", dict(point.overrides))

    home = folders[0].parent / "artefacts"
    threshold = more.get("threshold")
    return Bisect(points, parse(by), resolved, home, threshold=threshold, launcher=launches).run()


GOOD, BAD = reading([30, 34, 26, 38, 22, 30, 36, 24]), reading([6, 8, 5, 9, 4, 7, 9, 6])
FEW = [22, 4, 30]
MIDDLE = reading([22, 4, 30, 9, 18, 26, 13, 22])


def test_what_is_open_is_measured_longer_in_the_same_launch(drafters: Drafters) -> None:
    short = replace(reading(FEW), whole=False)
    launches = Launches(lambda i, _: [short, GOOD] if i == 1 else GOOD if i < 2 else BAD)
    found = bisect(drafters(*[""] * 4), launches)
    assert found.boundary
    assert (found.boundary.after, found.boundary.exact) == (2, True)
    assert len(found.measured[1][0].reading.counts) == len(GOOD.counts)
    assert launches.seen.count(1) == 1


def test_what_stays_open_is_skipped_and_the_answer_is_a_range(drafters: Drafters) -> None:
    launches = Launches(lambda i, _: MIDDLE if i == 2 else GOOD if i < 2 else BAD)
    found = bisect(drafters(*[""] * 5), launches)
    assert found.boundary
    assert (found.boundary.before, found.boundary.after) == (1, 3)
    assert found.boundary.skipped == (2,)
    assert found.measured[2][0].good is None


def test_nothing_is_blamed_on_one_measurement(drafters: Drafters) -> None:
    launches = Launches(lambda i, n: BAD if i >= 2 and not (i == 2 and n == 2) else GOOD)
    found = bisect(drafters(*[""] * 5), launches)
    assert found.boundary
    assert found.boundary.contradicted == (2,)
    assert not found.boundary.exact


def test_a_small_loss_on_all_prompts_is_told_by_pairs(drafters: Drafters) -> None:
    hard = [5 * i for i in range(1, 13)]  # prompts differ far more than the drafters do
    slightly = [max(c - 2, 0) for c in hard]
    launches = Launches(lambda i, _: reading(hard if i < 3 else slightly))
    found = bisect(drafters(*[""] * 6), launches)
    assert found.boundary
    assert (found.boundary.after, found.boundary.exact) == (3, True)
    first, last = found.measured[0][0].figure, found.measured[5][0].figure
    assert first
    assert last
    assert first.low < last.high  # their own intervals overlap


def test_a_server_that_is_not_there_is_not_kept(drafters: Drafters) -> None:
    gone = reading([], trouble="no server")
    folders = drafters(*[""] * 3)
    found = bisect(folders, Launches(lambda i, _: gone if i == 1 else GOOD if i == 0 else BAD))
    assert found.boundary
    assert found.boundary.skipped == (1,)
    again = Launches(lambda _, __: GOOD)
    found = bisect(folders, again)
    assert again.seen == [1]
    assert found.boundary
    assert (found.boundary.after, found.boundary.exact) == (2, True)


def test_a_reading_that_is_enough_for_one_threshold_may_not_be_for_another(
    drafters: Drafters,
) -> None:
    short = replace(GOOD, whole=False)
    folders = drafters("", "")
    first = Launches(lambda i, _: [short, GOOD] if i == 0 else BAD)
    assert bisect(folders, first, threshold=1.8).boundary
    close = 1 + sum(c.correct for c in GOOD.counts) / (STEPS * len(GOOD.counts))
    second = Launches(lambda i, _: [short, reading([40] * 8)] if i == 0 else BAD)
    assert bisect(folders, second, threshold=close).boundary
    assert second.seen == [0]


def test_speeds_are_held_against_the_middle_of_the_ends(drafters: Drafters) -> None:
    def at(speed: float, half: float = 2.0) -> Reading:
        value = Interval(value=speed, low=speed - half, high=speed + half, level=0.95, n=9)
        return Reading(speeds={"4": value})

    told = [at(100), at(97), at(75, 20), at(52), at(50)]
    found = bisect(drafters(*[""] * 5), Launches(lambda i, _: told[i]), by="tok/s:4")
    assert found.threshold == 75
    assert found.boundary
    assert (found.boundary.before, found.boundary.after) == (1, 3)


def test_ends_that_differ_are_on_their_sides_however_wide_they_are(drafters: Drafters) -> None:
    told = [
        Interval(value=50, low=48, high=52, level=0.95, n=9),
        Interval(value=100, low=55, high=145, level=0.95, n=9),
    ]
    launches = Launches(lambda i, _: Reading(speeds={"4": told[i]}))
    found = bisect(drafters("", ""), launches, by="tok/s:4")
    assert [found.measured[i][0].good for i in (0, 1)] == [False, True]


def test_speeds_that_overlap_are_ends_alike(drafters: Drafters) -> None:
    value = Interval(value=100, low=90, high=110, level=0.95, n=9)
    told = [value, replace(value, value=98, low=88, high=108)]
    launches = Launches(lambda i, _: Reading(speeds={"4": told[i]}))
    found = bisect(drafters("", ""), launches, by="tok/s:4")
    assert found.boundary is None
    assert "the ends do not differ by tok/s at 4 streams" in found.trouble


counts = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=3, max_size=30)


@given(counts)
def test_a_contrast_of_one_is_the_ratio_and_against_itself_nothing(
    pairs: list[tuple[int, int]],
) -> None:
    own = {("s", str(i)): pair for i, pair in enumerate(pairs)}
    alone = contrast([(1.0, own)], 0.95)
    ratio = ratio_interval([a for a, _ in pairs], [b for _, b in pairs])
    assert alone
    assert ratio
    assert alone.value == pytest.approx(ratio.value)
    if ratio.value:
        assert alone.high == pytest.approx(ratio.high)
    itself = contrast([(1.0, own), (-0.5, own), (-0.5, own)], 0.95)
    assert itself
    assert itself.value == pytest.approx(0, abs=1e-9)
    assert itself.high - itself.low == pytest.approx(0, abs=1e-6)
    assert contrast([(1.0, own), (-1.0, {("other", "p"): (1, 1)})], 0.95) is None


@given(st.randoms(use_true_random=False))
def test_readings_come_back_as_they_were(rng: random.Random) -> None:
    value = reading([rng.randrange(60) for _ in range(rng.randrange(5))])
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


def test_a_damaged_reading_is_measured_anew(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path), {"drafter": "a"}
    cache.put(key, GOOD)
    assert cache.get(key) == GOOD
    assert cache.get({"drafter": "b"}) is None
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-20])
    assert cache.get(key) is None


@pytest.mark.parametrize(
    "text", ["", "length", "position", "position:0", "tok/s:", "KEY999", "KEY"]
)
def test_what_is_no_criterion_is_told(text: str) -> None:
    with pytest.raises(CriterionError, match="it must be accept-length"):
        parse(text)


def test_figures_by_criterion() -> None:
    def value(by: str) -> float | None:
        found = figure(parse(by), BAD, 0.95)
        return found.value if found else None

    correct = sum(c.correct for c in BAD.counts)
    steps = STEPS * len(BAD.counts)
    assert value("accept-length") == pytest.approx(1 + correct / steps)
    assert value("accept-rate") == pytest.approx(correct / steps / 3)
    assert value("position:1") == pytest.approx(correct / steps)
    assert value("position:2") == 0
    assert value("tok/s:1") is None
    assert value("KEY001") is None
