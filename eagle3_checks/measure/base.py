"""The target's speed without speculation, from a server of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Throughput
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.throughput import Load, measure_throughput
from eagle3_checks.profile import Model, Profile
from eagle3_checks.server.arguments import without
from eagle3_checks.server.open import open_server
from eagle3_checks.server.readiness import ServerStartError
from eagle3_checks.server.watch import Watch

SPECULATION = "--speculative-"
"""What all of SGLang's flags about speculation begin with."""


class BaseError(RuntimeError):
    """No server without speculation to compare with."""


@dataclasses.dataclass(frozen=True)
class Base:
    """The target without a drafter, ready."""

    client: Client
    load: Load
    names: MetaNames

    def throughput(self) -> Throughput:
        """Measure its speed once."""
        return measure_throughput(self.client, self.load, self.names)


@contextmanager
def base_server(profile: Profile, artefacts: Path, load: Load, names: MetaNames) -> Iterator[Base]:
    """Serve the target without a drafter, or attach to one.

    Raises BaseError.
    """
    where = profile.speed.compare_base
    url = "" if where == "launch" else where
    if not url and profile.server.url:
        raise BaseError(
            "the server was attached to, so none is launched beside it; give the address of one "
            "without speculation: --eagle3-compare-base URL"
        )
    args = without(profile.server.args, SPECULATION)
    server = dataclasses.replace(profile.server, url=url, args=args)
    plain = dataclasses.replace(profile, drafter=Model(), server=server)
    load = dataclasses.replace(load, fresh=not url)
    try:
        with open_server(plain, artefacts / "base", speculative=False) as running:
            algorithm = running.info().get("speculative_algorithm")
            if algorithm:
                raise BaseError(f"the server at {running.url} speculates itself ({algorithm})")
            client = Client(
                running.url, api_key=running.api_key, timeout=profile.server.request_timeout
            )
            with Watch(running, client, profile.server.hang_timeout) as watch:
                try:
                    yield Base(client, load, names)
                finally:
                    client.close()
            if watch.lost:
                raise BaseError(f"the server without speculation: {watch.lost}")
    except (ServerStartError, OSError, ValueError) as error:
        raise BaseError(f"the server without speculation did not serve: {error}") from error
