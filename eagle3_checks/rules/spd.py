"""SPD: whether the output is as fast as it must be."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_checks.facts import Throughput
from eagle3_checks.profile import Floors
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted


class SPD001(Rule):
    """Output speed reaches its floor at each concurrency."""

    title = "Output speed reaches its floor at each concurrency"
    why = (
        "Speculation is there to be faster. Floors in tokens per second hold for one machine and "
        "one set of flags, and show a slower kernel, a smaller batch or a dead drafter."
    )
    fix = "Look at acceptance first (ACC001); then compare with a run without speculation."
    references = ("docs/measurements.md",)

    @staticmethod
    def check(throughput: Throughput, floors: Floors) -> Outcome:
        """Compare each concurrency that has a floor."""
        if not floors.tokens_per_second:
            return Skip("the profile has no floors.tokens_per_second")
        problems = tuple(_slow(throughput, floors))
        if problems:
            return problems
        figures = ", ".join(
            f"{s.tokens_per_second:.1f} tok/s at {s.concurrency}" for s in throughput.streams
        )
        return Passed(message=figures, evidence=_evidence(throughput, floors))


def _slow(throughput: Throughput, floors: Floors) -> Iterator[Problem]:
    streams = {str(stream.concurrency): stream for stream in throughput.streams}
    for concurrency, floor in floors.tokens_per_second.items():
        stream = streams.get(concurrency)
        if stream is None or not stream.output_tokens or stream.failed:
            reason = "was not measured" if stream is None else "brought no clean figure"
            yield Problem(
                message=f"concurrency {concurrency} {reason}; its floor is {floor:.1f} tok/s",
                fix="Add it to speed.concurrencies, and see SPD002 for failed requests.",
                inconclusive=True,
            )
        elif stream.tokens_per_second < floor:
            yield Problem(
                message=(
                    f"{stream.tokens_per_second:.1f} tok/s at concurrency {concurrency} "
                    f"({counted(stream.requests, 'request')}, {stream.output_tokens} tokens in "
                    f"{stream.seconds:.1f} s); the floor is {floor:.1f}"
                ),
                evidence=_evidence(throughput, floors),
            )


def _evidence(throughput: Throughput, floors: Floors) -> dict[str, dict[str, float | None]]:
    return {
        str(stream.concurrency): {
            "tokens_per_second": stream.tokens_per_second,
            "floor": floors.tokens_per_second.get(str(stream.concurrency)),
        }
        for stream in throughput.streams
    }


class SPD002(Rule):
    """Every request of the speed measurement was answered."""

    title = "Every request was answered while speed was measured"
    why = "A server that drops requests under load is not ready, however fast the others were."
    fix = "Look at the server's log for the time of the failures; lower the load or the batch."

    @staticmethod
    def check(throughput: Throughput) -> Outcome:
        """Report failed requests by concurrency."""
        problems = tuple(
            Problem(
                message=(
                    f"{stream.failed} of {counted(stream.requests, 'request')} failed at "
                    f"concurrency {stream.concurrency}"
                ),
                evidence={"concurrency": stream.concurrency, "failed": stream.failed},
                inconclusive=True,
            )
            for stream in throughput.streams
            if stream.failed
        )
        if problems:
            return problems
        total = sum(stream.requests for stream in throughput.streams)
        if not total:
            return Skip("no requests were sent to measure speed")
        return Passed(message=f"all of {counted(total, 'request')}")


RULES: tuple[type[Rule], ...] = (SPD001, SPD002)
