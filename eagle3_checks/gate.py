"""One gate run: every stage computed once, and only when something asks for it.

Static findings, server, wiring, acceptance, throughput, verdict. pytest fixtures hand the gate to
the tests; bisect and sweep use it directly.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eagle3_checks.checkpoint.subject import Subject
from eagle3_checks.contract.version import Contract, ContractError, contract_for, known_versions
from eagle3_checks.environments import installed_version
from eagle3_checks.facts import Acceptance, ServerSeen, Throughput, Trials, Wiring
from eagle3_checks.measure.progress import SILENT, Progress
from eagle3_checks.measuring import BaseError, Measurements, ServerLostError, StageBlocked
from eagle3_checks.profile import Floors, Profile, Resolved, Speculation
from eagle3_checks.profile import Server as ServerFlags
from eagle3_checks.replaying import ReplayError
from eagle3_checks.rules.base import STATIC_FACTS, Facts, run_rule, skipped, unjudged
from eagle3_checks.rules.registry import all_rules, by_code
from eagle3_checks.rules.selection import Selection, apply
from eagle3_checks.server.device import detect_device
from eagle3_checks.server.estimate import expected
from eagle3_checks.server.flags import FlagError
from eagle3_checks.server.http import AnswerError
from eagle3_checks.server.open import open_server
from eagle3_checks.server.ports import PortTakenError
from eagle3_checks.server.protocol import Server
from eagle3_checks.server.readiness import ServerStartError
from eagle3_checks.trying import try_profile
from eagle3_checks.verdict import Finding, Status, Verdict, judge

FILE_FACTS = frozenset({"manifest", "vocab", "draft", "target", "tokenizer", "values", "corners"})
STARTS = "SRV003"
"""The rule that the server starts and stays up."""
ACCEPTED_TOO_LITTLE = ("ACC001", "ACC002", "ACC005")
"""The rules whose failure a replay is to explain."""
END_NOTICE_SECONDS = 2.0


NO_GPU = (
    "the profile asks for a GPU (server.device) and this machine has none; attach to a server "
    "elsewhere with --eagle3-url, or try the tiny pair on the CPU: --eagle3-profile tiny"
)


SERVER_ERRORS = (
    ServerStartError,
    ServerLostError,
    BaseError,
    FlagError,
    PortTakenError,
    AnswerError,
    ValueError,
    OSError,
)


class Gate(Measurements):
    """The stages of one run over one profile; a context manager that ends its server."""

    def __init__(
        self,
        resolved: Resolved,
        artefacts: Path,
        *,
        keep_going: bool = False,
        progress: Progress = SILENT,
        selection: Selection | None = None,
    ) -> None:
        """`keep_going` starts the server although the files have errors.

        What `selection` ignores is judged and shown, and decides nothing; which rules are asked
        about at all is the caller's affair.
        """
        self._ignoring = Selection(ignored=selection.ignored if selection else {})
        self.progress = progress
        self.resolved = resolved
        self.profile: Profile = resolved.profile
        self.files = Subject(resolved.profile.drafter.path, resolved.profile.target.path)
        self.artefacts = artefacts
        self.keep_going = keep_going
        self.samples = ()
        self.failures = ()
        self.stage_seconds = {}
        self._stack = ExitStack()
        self._outcomes: dict[str, tuple[Finding, ...]] = {}
        self._blocked: dict[str, str] = {}
        self._failed: Exception | None = None

    def __enter__(self) -> Self:
        """Return the gate; nothing runs yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server, if one was started."""
        self.close()

    def close(self) -> None:
        """End the server, if one was started, and close connections; safe to call twice."""
        self._stack.close()

    @cached_property
    def contract(self) -> Contract:
        """What the SGLang version in question does with a drafter."""
        version = self.profile.server.sglang or self._server_version()
        try:
            return contract_for(version or known_versions()[-1])
        except ContractError as error:
            raise StageBlocked(str(error)) from error

    @property
    def speculation(self) -> Speculation:
        """The profile's speculation flags."""
        return self.profile.speculation

    @property
    def serving(self) -> ServerFlags | None:
        """Flags and environment of the server to be launched; None where one is attached to."""
        server = self.profile.server
        if server.url:
            return None
        inherited = {k: v for k, v in os.environ.items() if k.startswith("SGLANG_")}
        return dataclasses.replace(server, env=inherited | dict(server.env))

    @property
    def floors(self) -> Floors:
        """The profile's floors."""
        return self.profile.floors

    # --- server ------------------------------------------------------------------------------

    @cached_property
    def running(self) -> Server:
        """The server, ready: launched, or attached to.

        Raises StageBlocked when a server would be started for files with errors (unless
        keep_going), and SERVER_ERRORS where it does not become ready; it is tried once alone.
        """
        if self._failed is not None:
            raise self._failed
        try:
            return self._open()
        except SERVER_ERRORS as error:
            self._failed = error
            raise

    def _open(self) -> Server:
        if not (self.keep_going or self.profile.server.url):
            errors = sorted({f.code for f in self.static_findings() if f.is_error})
            if errors:
                raise StageBlocked(
                    f"the files have errors ({', '.join(errors)}), so no server was started; "
                    "--keep-going (in pytest --eagle3-keep-going) starts it all the same"
                )
        here = not self.profile.server.url and self.profile.server.device != "cpu"
        if here and detect_device() is None:
            raise StageBlocked(NO_GPU)
        _ = self.prompts  # what cannot be sent is told before a server is started
        self.artefacts.mkdir(parents=True, exist_ok=True)
        usual = expected(self.profile)
        self.progress.begin("server start", round(usual or self.profile.server.start_timeout))
        try:
            with self._timed("server start"):
                server = open_server(self.profile, self.artefacts, self.progress.say)
                return self._stack.enter_context(server)
        finally:
            self.progress.end()

    @cached_property
    def server(self) -> ServerSeen:
        """What the ready server says of itself."""
        return self.running.seen()

    @cached_property
    def wiring(self) -> Wiring:
        """What the probe saw inside the launched server, after requests have passed."""
        wiring = self.running.wiring()
        if wiring is None:
            raise StageBlocked("the probe looks inside launched servers; this one was attached to")
        return wiring

    @cached_property
    def trials(self) -> Trials:
        """What the drafter reaches with one thing changed, where a replay was asked for."""
        if self.profile.replay.source == "none":
            raise StageBlocked("no replay was asked for (--eagle3-replay)")
        self._fact("replayed")
        with self._timed("trials"):
            try:
                return try_profile(
                    self.profile, self.files, self.contract, self._sent(), self.samples
                )
            except ReplayError as error:
                raise StageBlocked(str(error)) from error

    # --- judgement ---------------------------------------------------------------------------

    def findings_of(self, code: str) -> tuple[Finding, ...]:
        """Findings of one rule, running the stages it needs and its prerequisites first."""
        if code not in self._outcomes:
            self._outcomes[code] = apply(self._ignoring, self._judge(code))
        return self._outcomes[code]

    def static_findings(self) -> tuple[Finding, ...]:
        """Findings of all rules that need files alone."""
        return self._findings(r.code() for r in all_rules() if set(r.needs()) <= STATIC_FACTS)

    def findings(self) -> tuple[Finding, ...]:
        """All findings so far, in the order of the rules."""
        order = [rule.code() for rule in all_rules()]
        return tuple(f for c in sorted(self._outcomes, key=order.index) for f in self._outcomes[c])

    def verdict(self) -> Verdict:
        """Verdict over the rules judged so far; without verify steps it is never a pass.

        Where none of the rules that were selected asks for acceptance, they may pass by themselves.
        """
        seen = self.findings()
        if any("acceptance" in by_code(f.code).needs() for f in seen):
            measured = self._ran("acceptance") and self.acceptance.verify_steps > 0
        else:
            measured = not self.blocked_reason() and any(f.status is Status.PASS for f in seen)
        return judge(seen, measured=measured)

    def blocked_reason(self) -> str:
        """Say why the server was not measured, or nothing."""
        stages = ("server", "wiring", "acceptance", "throughput")
        return next((self._blocked[stage] for stage in stages if stage in self._blocked), "")

    def complete(self) -> None:
        """Run what the profile asks for and no rule needs."""
        if self.profile.replay.source != "none":
            self._fact("replayed")
            if any(f.is_error for f in self.findings() if f.code in ACCEPTED_TOO_LITTLE):
                self._fact("trials")

    def not_replayed(self) -> str:
        """Say why there is no replay although one was asked for, or nothing."""
        return self._blocked.get("replayed", "") if self.profile.replay.source != "none" else ""

    def measurements(self) -> tuple[Acceptance | None, Throughput | None, Wiring | None]:
        """Return the measurements that were made; None for those that were not asked for."""
        return (
            self.acceptance if self._ran("acceptance") else None,
            getattr(self, next((s for s in ("compared", "throughput") if self._ran(s)), ""), None),
            self.wiring if self._ran("wiring") else None,
        )

    def has(self, stage: str) -> bool:
        """Whether a stage has run."""
        return self._ran(stage)

    def _findings(self, codes: Iterable[str]) -> tuple[Finding, ...]:
        return tuple(finding for code in codes for finding in self.findings_of(code))

    def _judge(self, code: str) -> tuple[Finding, ...]:
        rule = by_code(code)
        for prerequisite in rule.requires:
            if any(f.is_error for f in self.findings_of(prerequisite)):
                return (skipped(rule, f"{prerequisite} failed"),)
        found: dict[str, Any] = {}
        absent: dict[str, str] = {}
        for name in rule.takes():
            found[name], absent[name] = self._fact(name)
        return run_rule(rule, Facts(**found), absent)

    def _fact(self, name: str) -> tuple[Any, str]:
        if name in self._blocked:
            return None, self._blocked[name]
        try:
            return getattr(self.files if name in FILE_FACTS else self, name), ""
        except StageBlocked as blocked:
            reason = str(blocked)
        except SERVER_ERRORS as error:
            reason = "no server: " + str(error).partition("\n")[0]
            self._outcomes[STARTS] = (unjudged(by_code(STARTS), str(error)),)
        self._blocked[name] = reason
        return None, reason

    def _ran(self, stage: str) -> bool:
        return stage in self.__dict__

    # --- details -----------------------------------------------------------------------------

    def _server_version(self) -> str | None:
        """Version of SGLang in the interpreter that will serve, or of the attached server."""
        if self.profile.server.url:
            return self.server.sglang
        if self.profile.server.command:
            return None
        return installed_version(self.profile.server.python or sys.executable)
