"""The server of a profile: attached to where it names one, else launched."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from eagle3_checks.profile import Profile
from eagle3_checks.server.attach import ATTACH_SECONDS, OtherServerError, attach
from eagle3_checks.server.device import served_device
from eagle3_checks.server.launch import launch
from eagle3_checks.server.protocol import Server
from eagle3_checks.server.readiness import ServerStartError
from eagle3_checks.server.running import Tell, nobody

PORT_ATTEMPTS = 3
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def open_server(
    profile: Profile, artefacts: Path, tell: Tell = nobody, *, speculative: bool = True
) -> Iterator[Server]:
    """Yield the profile's server, ready; a launched one ends with the context.

    An attached one must speculate where `speculative` is asked for, a launched one where the
    profile has a drafter. `tell` takes what a launched one is doing until then.

    Raises OtherServerError where an attached server is not the profile's, NoDeviceError where
    there is nothing to serve on, ServerStartError where the server does not become ready, FlagError
    and PortTakenError where the profile's flags or port cannot be used. A start that lost its free
    port to another process is tried again with a new one, three times in all.
    """
    if profile.server.url:
        limit = min(ATTACH_SECONDS, profile.server.start_timeout)
        with attach(
            profile.server.url, timeout=limit, request_timeout=limit, speculative=speculative
        ) as attached:
            other = attached.differing(profile) if speculative else ()
            if other and not profile.server.attach_anyway:
                raise OtherServerError(
                    f"the server at {attached.url} is not the one of the profile: "
                    f"{'; '.join(other)}; correct the profile, or judge it all the same with "
                    "server.attach_anyway (--eagle3-attach-anyway)"
                )
            yield attached
        return
    device = served_device(profile)
    with contextlib.ExitStack() as stack:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                running = stack.enter_context(launch(profile, artefacts, device=device, tell=tell))
                break
            except ServerStartError as error:
                if attempt == PORT_ATTEMPTS or profile.server.port or not _lost_port(error):
                    raise
                _log.warning("the server's port was taken while it started; trying another")
        yield running


def _lost_port(error: ServerStartError) -> bool:
    return any(symptom.signature.name == "port-in-use" for symptom in error.symptoms)
