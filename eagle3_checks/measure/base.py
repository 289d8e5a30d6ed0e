"""The target's speed without speculation, from a server of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from eagle3_checks.contract.metrics import MetaNames
from eagle3_checks.facts import Throughput
from eagle3_checks.measure.client import Client
from eagle3_checks.measure.throughput import Load, measure_throughput
from eagle3_checks.profile import Model, Profile
from eagle3_checks.server.open import open_server
from eagle3_checks.server.readiness import ServerStartError


class BaseError(RuntimeError):
    """No server without speculation to compare with."""


def measure_base(profile: Profile, artefacts: Path, load: Load, names: MetaNames) -> Throughput:
    """Send the same load to the target without a drafter: launched, or at an address.

    Raises BaseError.
    """
    where = profile.speed.compare_base
    url = "" if where == "launch" else where
    if not url and profile.server.url:
        raise BaseError(
            "the server was attached to, so none is launched beside it; give the address of one "
            "without speculation: --eagle3-compare-base URL"
        )
    server = dataclasses.replace(profile.server, url=url)
    plain = dataclasses.replace(profile, drafter=Model(), server=server)
    try:
        with open_server(plain, artefacts / "base") as running:
            algorithm = running.info().get("speculative_algorithm")
            if algorithm:
                raise BaseError(f"the server at {running.url} speculates itself ({algorithm})")
            client = Client(
                running.url, api_key=running.api_key, timeout=profile.server.request_timeout
            )
            try:
                return measure_throughput(client, load, names)
            finally:
                client.close()
    except (ServerStartError, OSError, ValueError) as error:
        raise BaseError(f"the server without speculation did not serve: {error}") from error
