"""SPD: whether the output is as fast as it must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from eagle3_checks.facts import Acceptance, SpeedUp, Stream, Throughput
from eagle3_checks.profile import Floors
from eagle3_checks.rules.base import Outcome, Passed, Problem, Rule, Skip
from eagle3_checks.rules.text import counted, interval
from eagle3_checks.verdict import Severity

CACHED_APART = 0.05
"""Shares of cached prompt tokens that differ by more were not the same work."""
HELD = {True: "the floor is", False: "the interval holds the floor,"}  # by: wholly below
CLIENT_LIMIT = 0.8
"""CPU seconds a second. One process has one interpreter: near 1 it has no time left."""


class SPD001(Rule):
    """Output speed reaches its floor at each concurrency."""

    title = "Output speed reaches its floor at each concurrency"
    why = (
        "Speculation is there to be faster. Floors in tokens per second hold for one machine and "
        "one set of flags, and show a slower kernel, a smaller batch or a dead drafter."
    )
    fix = "Look at acceptance first (ACC001); then compare with a run without speculation."
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(throughput: Throughput, floors: Floors, hardware: str) -> Outcome:
        """Judge the interval of each concurrency that has a floor."""
        named = floors.tokens_per_second
        if not named:
            return Skip("the profile has no floors.tokens_per_second")
        wanted = floors_here(named, hardware)
        problems = (*_elsewhere(named, wanted, hardware), *_slow(throughput, wanted))
        if problems:
            return problems
        figures = ", ".join(
            f"{s.tokens_per_second:.1f} tok/s at {s.concurrency}" for s in throughput.streams
        )
        return Passed(message=figures, evidence=_evidence(throughput, wanted))


def floors_here(floors: Mapping[str, float], hardware: str) -> dict[str, float]:
    """Return the floors by concurrency that hold on this hardware; a named GPU's go first."""
    plain = {entry: floor for entry, floor in floors.items() if ":" not in entry}
    for entry, floor in floors.items():
        gpu, named, concurrency = entry.rpartition(":")
        if named and gpu.lower() in hardware.lower():
            plain[concurrency] = floor
    return plain


def _elsewhere(
    floors: Mapping[str, float], here: Mapping[str, float], hardware: str
) -> Iterator[Problem]:
    """Yield the concurrencies whose floors are all those of other GPUs."""
    others = [entry for entry in floors if entry.rpartition(":")[2] not in here]
    if others:
        yield Problem(
            message=f"no floor holds on {hardware}: there are {', '.join(others)}",
            fix='Add one for this GPU, or one without a name ("8" = 600.0).',
            inconclusive=True,
        )


def _slow(throughput: Throughput, floors: Mapping[str, float]) -> Iterator[Problem]:
    streams = {str(stream.concurrency): stream for stream in throughput.streams}
    for concurrency, floor in floors.items():
        stream = streams.get(concurrency)
        if stream is None or not stream.output_tokens or stream.failed:
            reason = "was not measured" if stream is None else "brought no clean figure"
            yield Problem(
                message=f"concurrency {concurrency} {reason}; its floor is {floor:.1f} tok/s",
                fix="Add it to speed.concurrencies, and see SPD002 for failed requests.",
                inconclusive=True,
            )
            continue
        seen = stream.interval
        low, high = (seen.low, seen.high) if seen else (stream.tokens_per_second,) * 2
        if low >= floor:
            continue
        below = high < floor
        spread = f" [{low:.1f}, {high:.1f}]" if seen else ""
        yield Problem(
            message=(
                f"{stream.tokens_per_second:.1f}{spread} tok/s at concurrency {concurrency} "
                f"({counted(stream.requests, 'request')}, {stream.output_tokens} tokens in "
                f"{stream.seconds:.1f} s); {HELD[below]} {floor:.1f}"
            ),
            evidence=_evidence(throughput, floors),
            fix="" if below else "Send more requests (speed.requests).",
            inconclusive=not below,
        )


def _evidence(
    throughput: Throughput, floors: Mapping[str, float]
) -> dict[str, dict[str, float | None]]:
    return {
        str(stream.concurrency): {
            "tokens_per_second": stream.tokens_per_second,
            "floor": floors.get(str(stream.concurrency)),
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


class SPD003(Rule):
    """The client left the server's speed alone."""

    title = "The client was not the bottleneck"
    why = (
        "A client that is short of CPU time reads tokens later than they come, and the speed "
        "measured is its own."
    )
    fix = "Run the client on a machine with idle cores, or measure lower concurrencies."
    references = ("docs/measurements.md",)

    @staticmethod
    def check(throughput: Throughput) -> Outcome:
        """Compare the client's CPU seconds with the time of the run."""
        if not throughput.streams:
            return Skip("no requests were sent to measure speed")
        busy = [s for s in throughput.streams if s.client_share > CLIENT_LIMIT]
        if not busy:
            most = max(s.client_share for s in throughput.streams)
            return Passed(message=f"it took {most:.2f} CPU seconds a second at most")
        return tuple(
            Problem(
                message=(
                    f"the client took {s.client_share:.2f} CPU seconds a second at concurrency "
                    f"{s.concurrency}; above {CLIENT_LIMIT} the speed may be its own"
                ),
                evidence={"concurrency": s.concurrency, "client_share": s.client_share},
                inconclusive=True,
            )
            for s in busy
        )


class SPD004(Rule):
    """Speculation is as much faster as it must be."""

    title = "The speed-up over no speculation reaches its floor"
    why = (
        "A ratio between two runs on one machine says more than tokens per second, which change "
        "with the machine and with what else runs on it. Speculation pays at low concurrency and "
        "stops paying where the GPU is busy with the batch itself."
    )
    fix = (
        "Look at acceptance (ACC001). Where that holds, use fewer draft tokens, or serve without "
        "speculation from the break-even concurrency on."
    )
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(compared: Throughput, floors: Floors) -> Outcome:
        """Judge the interval of each concurrency that has a floor."""
        figures = "; ".join(map(_figure, compared.speed_ups)) or "nothing to compare"
        if compared.break_even is not None:
            figures += f"; break-even at concurrency {compared.break_even:.0f}"
        figures += _drift(compared.speed_ups)
        wanted = floors.speed_up
        if not wanted:
            return Skip(f"the profile has no floors.speed_up; {figures}")
        problems = tuple(_short(compared, wanted))
        evidence = {str(up.concurrency): up.ratio.value for up in compared.speed_ups}
        return problems or Passed(message=figures, evidence=evidence)


def _figure(up: SpeedUp) -> str:
    value, _, spread = interval(up.ratio).partition(" ")
    return f"{value} times {spread} at concurrency {up.concurrency}"


def _drift(ups: Iterable[SpeedUp]) -> str:
    """Say how far repetitions lay apart, where there were any."""
    drift = next((up.drift for up in ups if up.drift is not None), None)
    if drift is None:
        return ""
    told = f"; measured again, speeds differ by {drift:.1%}, which the intervals hold"
    return told.replace("%", " %")


def _short(compared: Throughput, floors: Mapping[str, float]) -> Iterator[Problem]:
    ups = {str(up.concurrency): up for up in compared.speed_ups}
    failed = {str(s.concurrency) for s in (*compared.streams, *compared.base) if s.failed}
    for concurrency, floor in floors.items():
        up = ups.get(concurrency)
        if up is None or concurrency in failed:
            yield Problem(
                message=f"no clean speed-up at concurrency {concurrency}; its floor is {floor:.2f}",
                fix="Add it to speed.concurrencies, and see SPD002 for failed requests.",
                inconclusive=True,
            )
        elif up.ratio.low < floor:
            below = up.ratio.high < floor
            yield Problem(
                message=f"speed-up {_figure(up)}; {HELD[below]} {floor:.2f}",
                evidence={"concurrency": up.concurrency, "value": up.ratio.value, "floor": floor},
                fix="" if below else "Send more requests (speed.requests).",
                inconclusive=not below,
            )


class SPD005(Rule):
    """The speed-up is one that the accept length allows."""

    title = "The speed-up is one that the accept length allows"
    why = (
        "A verify step costs at least what a step without speculation costs, and brings as many "
        "tokens as the accept length says. A speed-up above the accept length means that the run "
        "without speculation was slowed by something else."
    )
    fix = "Measure the run without speculation again, on the same idle machine and the same flags."
    references = ("docs/measurements.md",)
    requires = ("SRV002",)

    @staticmethod
    def check(compared: Throughput, acceptance: Acceptance) -> Outcome:
        """Compare each speed-up with the accept length over the same requests."""
        streams = {s.concurrency: s for s in compared.streams}
        pooled = acceptance.accept_length
        problems = list(_incomparable(compared))
        for up in compared.speed_ups:
            own = streams[up.concurrency].accept_length
            length = own if own is not None else pooled.value if pooled else None
            if length is not None and up.ratio.low > length:
                problems.append(
                    Problem(
                        message=(
                            f"speed-up {_figure(up)} is above the accept length, {length:.2f}: the "
                            "run without speculation cannot be compared with"
                        ),
                        evidence={"concurrency": up.concurrency, "accept_length": length},
                        inconclusive=True,
                    )
                )
        if problems:
            return problems
        if not compared.speed_ups:
            return Skip("no speed-up was measured")
        return Passed(message="; ".join(map(_figure, compared.speed_ups)))


def _incomparable(compared: Throughput) -> Iterator[Problem]:
    """Yield the concurrencies that were measured and have no speed-up: requests failed there."""
    for concurrency in sorted(
        {s.concurrency for s in compared.streams} - {up.concurrency for up in compared.speed_ups}
    ):
        sides = ((*compared.streams, *compared.again), (*compared.base, *compared.base_again))
        fast, base = (
            f"{sum(s.failed for s in side)} of {sum(s.requests for s in side)}"
            for side in ([s for s in side if s.concurrency == concurrency] for side in sides)
        )
        yield Problem(
            message=f"no speed-up at concurrency {concurrency}: {fast} requests failed with "
            f"speculation, {base} without",
            evidence={"concurrency": concurrency},
            fix="See why they failed in the logs of both servers, and measure again.",
            inconclusive=True,
        )


class SPD006(Rule):
    """Both servers had as much of the prompts in their caches."""

    title = "Speed is compared over the same work"
    why = (
        "SGLang keeps the prefixes that it has seen, and a prompt found there costs no prefill. "
        "Where one server has seen the prompts before and the other has not, the speed-up is in "
        "part the cache's. Servers that the suite launches are told to forget before each "
        "concurrency; others are left as they are."
    )
    fix = (
        "Compare two servers with --disable-radix-cache, or let the suite launch them. Emptying "
        "the caches by hand (POST /flush_cache) helps until acceptance is measured."
    )
    severity = Severity.WARNING
    references = ("docs/measurements.md",)

    @staticmethod
    def check(compared: Throughput) -> Outcome:
        """Compare the shares of prompt tokens that were cached, at each concurrency."""
        if not compared.base:
            return Skip("no speed-up was measured")
        problems = []
        sides = ((*compared.streams, *compared.again), (*compared.base, *compared.base_again))
        for concurrency in sorted({s.concurrency for s in compared.base}):
            fast, base = (_cached(side, concurrency) for side in sides)
            if abs(fast - base) > CACHED_APART:
                told = (
                    f"{fast:.0%} of prompt tokens were cached with speculation, {base:.0%} without"
                )
                problems.append(
                    Problem(
                        message=f"at concurrency {concurrency} {told}".replace("%", " %"),
                        evidence={"concurrency": concurrency, "with": fast, "without": base},
                    )
                )
        return tuple(problems) or Passed(
            message="as many prompt tokens were cached with and without"
        )


def _cached(streams: Iterable[Stream], concurrency: int) -> float:
    """Return the cached share of all prompt tokens at a concurrency."""
    here = [s for s in streams if s.concurrency == concurrency]
    total = sum(s.prompt_tokens for s in here)
    return sum(s.cached_tokens for s in here) / total if total else 0.0


RULES: tuple[type[Rule], ...] = (SPD001, SPD002, SPD003, SPD004, SPD005, SPD006)
