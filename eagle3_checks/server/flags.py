"""The command and environment that serve a profile with SGLang (0.5.16 to 0.5.23 flag names)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from eagle3_checks.profile import Profile
from eagle3_checks.server.arguments import flags

RUN_ID = "EAGLE3_RUN_ID"
"""Variable that every process of a launched server carries."""
PROBE_FILE = "EAGLE3_PROBE_FILE"
PROBE_PLUGIN = "eagle3_probe"
_INSIDE = Path(__file__).resolve().parent.parent / "inside"
_REVISION = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)@(?P<revision>[\w./-]+)")

# Flags that a profile states elsewhere; given twice, the last would win and the report would lie.
_STATED: Mapping[str, str] = {
    "--model-path": "target.path",
    "--model": "target.path",
    "--speculative-draft-model-path": "drafter.path",
    "--speculative-draft-model": "drafter.path",
    "--speculative-algorithm": "speculation.algorithm",
    "--speculative-algo": "speculation.algorithm",
    "--speculative-num-steps": "speculation.steps",
    "--speculative-eagle-topk": "speculation.topk",
    "--speculative-num-draft-tokens": "speculation.draft_tokens",
    "--host": "server.host",
    "--port": "server.port",
    "--tp": "server.tp",
    "--tp-size": "server.tp",
    "--tensor-parallel-size": "server.tp",
}
_CPU_FLAGS: tuple[tuple[str, str], ...] = (
    ("--device", "cpu"),
    ("--dtype", "float32"),
    ("--prefill-attention-backend", "intel_amx"),
    ("--decode-attention-backend", "intel_amx"),
    ("--max-total-tokens", "8192"),
)


class FlagError(ValueError):
    """A profile whose server flags contradict it; the message says what to change."""


def build_command(
    profile: Profile, *, port: int, device: Literal["cuda", "cpu"], gpus: str = "all"
) -> tuple[str, ...]:
    """Return the command that serves the profile on that port.

    `gpus` stands for ``{gpus}`` in a command of the profile's own. Raises FlagError where
    ``server.args`` repeats what the profile states elsewhere, or asks for what the device cannot
    do.
    """
    server, spec = profile.server, profile.speculation
    given = {name for name, _ in flags(server.args)}
    for flag in sorted(given & _STATED.keys()):
        if profile.drafter.path or not flag.startswith("--speculative-"):
            raise FlagError(f"server.args gives {flag}; set {_STATED[flag]} instead")
    if device == "cpu" and server.tp > 1:
        raise FlagError(
            f"server.tp is {server.tp}, but the CPU engine serves one rank only: SGLang's group "
            "constructor builds a CUDA communicator; set server.tp = 1 or serve on a GPU"
        )
    base = server.command or (server.python or sys.executable, "-m", "sglang.launch_server")
    target, target_revision = split_revision(profile.target.path)
    drafter, drafter_revision = split_revision(profile.drafter.path)
    ours = [("--model-path", target)]
    if target_revision and "--revision" not in given:
        ours.append(("--revision", target_revision))
    if drafter:
        ours += [
            ("--speculative-algorithm", spec.algorithm),
            ("--speculative-draft-model-path", drafter),
            ("--speculative-num-steps", str(spec.steps)),
            ("--speculative-eagle-topk", str(spec.topk)),
            ("--speculative-num-draft-tokens", str(spec.draft_tokens)),
        ]
        if drafter_revision and "--speculative-draft-model-revision" not in given:
            ours.append(("--speculative-draft-model-revision", drafter_revision))
    ours += [("--host", server.host), ("--port", str(port)), ("--tp-size", str(server.tp))]
    if device == "cpu":
        ours += [(flag, value) for flag, value in _CPU_FLAGS if not _overridden(flag, given)]
    return (*_filled(base, port, gpus), *(word for flag in ours for word in flag), *server.args)


def stop_command(profile: Profile, *, port: int, gpus: str) -> tuple[str, ...]:
    """Return the command that ends a server started by ``server.command``; empty for none."""
    return _filled(profile.server.stop_command, port, gpus)


def gpus_of(environment: Mapping[str, str]) -> str:
    """Return the GPUs a server is given, as ``0,1``; ``all`` where nothing limits them."""
    return environment.get("CUDA_VISIBLE_DEVICES") or "all"


def _filled(words: tuple[str, ...], port: int, gpus: str) -> tuple[str, ...]:
    return tuple(w.replace("{port}", str(port)).replace("{gpus}", gpus) for w in words)


def _overridden(flag: str, given: set[str]) -> bool:
    """Whether the profile gives the flag, or the one that sets both attention backends at once."""
    both = flag.endswith("-attention-backend") and "--attention-backend" in given
    return flag in given or both


def build_environment(
    profile: Profile,
    *,
    device: Literal["cuda", "cpu"],
    probe_prefix: Path | None,
    base: Mapping[str, str],
) -> dict[str, str]:
    """Return the server's environment: `base`, what the device and probe need, ``server.env``.

    `probe_prefix` is the path prefix of the probe's files; None serves without the probe. This
    suite's own variables (``EAGLE3_CHECKS_*``, an API key among them) are not handed on.
    """
    env = {k: v for k, v in base.items() if not k.startswith("EAGLE3_CHECKS_")}
    env |= profile.server.env
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.setdefault("PYTHONFAULTHANDLER", "1")  # stacks in the log when it crashes or is aborted
    # Without it the titles SGLang gives its processes overwrite /proc/PID/environ, by which
    # leftovers are found (setproctitle's README, "Environment variables").
    env.setdefault("SPT_NOENV", "1")
    folders: list[Path] = []
    if device == "cpu":
        env.setdefault("SGLANG_USE_CPU_ENGINE", "1")
        env.setdefault("TORCHDYNAMO_DISABLE", "1")
        folders.append(_INSIDE / "cpu")
    if probe_prefix is not None:
        env[PROBE_FILE] = str(probe_prefix)
        folders.append(_INSIDE / "probe")
        allowed = env.get("SGLANG_PLUGINS", "")
        if allowed and PROBE_PLUGIN not in allowed.split(","):
            env["SGLANG_PLUGINS"] = f"{allowed},{PROBE_PLUGIN}"
    if folders:
        before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
        env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *before])
    if _all_local(profile):
        env.setdefault("HF_HUB_OFFLINE", "1")
        env.setdefault("TRANSFORMERS_OFFLINE", "1")
    return env


def split_revision(source: str) -> tuple[str, str]:
    """Split a hub id ``org/name@revision``; a folder, or an id without one, has revision ''."""
    match = _REVISION.fullmatch(source)
    if match is None or Path(source).exists():
        return source, ""
    return match["id"], match["revision"]


def api_key(profile: Profile, environ: Mapping[str, str]) -> str:
    """Return the key a launched server asks for (``--api-key``), else ``EAGLE3_CHECKS_API_KEY``."""
    given = dict(flags(profile.server.args))
    return given.get("--api-key") or environ.get("EAGLE3_CHECKS_API_KEY", "")


def _all_local(profile: Profile) -> bool:
    """Whether no path among target, drafter and ``--…-path`` flags has to come from a hub."""
    given = [value for name, value in flags(profile.server.args) if name.endswith("-path")]
    sources = (profile.target.path, profile.drafter.path, *given)
    return all(Path(source).exists() for source in sources if source)
