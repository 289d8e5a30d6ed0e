"""Profiles from the command line, the environment and TOML, checked against `profile`.

Precedence: command line > environment ``EAGLE3_CHECKS_*`` > profile file > defaults.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from eagle3_checks import shipped
from eagle3_checks.profile import Profile, Resolved, Speculation

ENV_PREFIX = "EAGLE3_CHECKS_"
ENV_SHORT = {
    "TARGET": "target.path",
    "DRAFT": "drafter.path",
    "URL": "server.url",
    "DEVICE": "server.device",
}
ENV_RESERVED = frozenset({"PROFILE", "API_KEY"})
MAX_PROFILE_BYTES = 1 << 20
MAX_PORT = 65535
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


class ProfileError(ValueError):
    """A profile that cannot be used; the message says where, what was expected and what to do."""


@dataclasses.dataclass(frozen=True)
class _Value:
    value: Any
    origin: str
    base: Path
    """Folder that relative paths start from."""


def find_profile(name: str) -> Path:
    """Return the file of a profile given by path or by shipped name.

    Raises ProfileError with the shipped names where there is none.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    built_in = shipped.shipped("fixtures", "profiles", f"{name}.toml")
    if re.fullmatch(r"[\w.-]+", name) and built_in.is_file():
        return built_in
    known = ", ".join(shipped.names("profiles", ".toml"))
    raise ProfileError(f"no profile {name!r}: no such file, and the built-in ones are {known}")


def resolve(
    profile: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """Resolve a profile; `overrides` are command-line values by dotted key.

    Raises ProfileError on any unknown key, wrong type or combination that does not fit.
    """
    environ = os.environ if environ is None else environ
    profile = profile or environ.get(f"{ENV_PREFIX}PROFILE")
    values: dict[str, _Value] = {}
    file = text = ""
    if profile:
        path = find_profile(profile)
        file, text = str(path), _read(path)
        values.update(_from_toml(path, text))
    values.update(_from_environ(environ))
    for key, value in (overrides or {}).items():
        if value is not None:
            values[key] = _Value(value, "command line", Path.cwd())
    built = _build(values)
    if not built.name and file:
        built = dataclasses.replace(built, name=Path(file).stem)
    _check(built, values, file)
    origins = {key: values[key].origin if key in values else "default" for key in schema()}
    return Resolved(profile=built, origins=origins, file=file)


def schema() -> dict[str, Any]:
    """Map every dotted key to its type."""
    keys: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(Profile).items():
        if dataclasses.is_dataclass(hint):
            keys.update({f"{name}.{k}": t for k, t in typing.get_type_hints(hint).items()})
        else:
            keys[name] = hint
    return keys


def flatten(profile: Profile) -> dict[str, Any]:
    """Map every dotted key to the profile's value."""
    flat: dict[str, Any] = {}
    for key in schema():
        value: Any = profile
        for part in key.split("."):
            value = getattr(value, part)
        flat[key] = value
    return flat


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_PROFILE_BYTES:
        raise ProfileError(f"{path}: larger than 1 MiB; a profile is a short TOML file")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _from_toml(path: Path, text: str) -> dict[str, _Value]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: not valid TOML: {error}") from error
    known = schema()
    sections = {key.split(".")[0] for key in known if "." in key}
    values: dict[str, _Value] = {}
    for name, entry in data.items():
        if name in sections:
            if not isinstance(entry, dict):
                where = f"{path}:{_line(text, '', name)}"
                raise ProfileError(f"{where}: {name} must be a table, as in [{name}]")
            pairs = [(f"{name}.{key}", value) for key, value in entry.items()]
        else:
            pairs = [(name, entry)]
        for key, value in pairs:
            section, _, last = key.rpartition(".")
            where = f"{path}:{_line(text, section, last)}"
            if key not in known:
                near = _nearest(key, known) if section or not isinstance(entry, dict) else ""
                near = near or _nearest(key, sections)
                raise ProfileError(f"{where}: unknown key {key!r}{near}")
            values[key] = _Value(_convert(key, value, known[key], where), where, path.parent)
    return values


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Value]:
    known = schema()
    names = {ENV_PREFIX + key.replace(".", "_").upper(): key for key in known}
    names |= {ENV_PREFIX + short: key for short, key in ENV_SHORT.items()}
    values: dict[str, _Value] = {}
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name[len(ENV_PREFIX) :] in ENV_RESERVED:
            continue
        where = f"environment {name}"
        if name not in names:
            raise ProfileError(f"{where}: unknown variable{_nearest(name, names)}")
        key = names[name]
        text = environ[name]
        value = text if known[key] is str or _choices(known[key]) else _parse(text, where)
        values[key] = _Value(_convert(key, value, known[key], where), where, Path.cwd())
    return values


def _parse(text: str, where: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError as error:
        wanted = "not a TOML value; write 3, 1.5, true or ['a', 'b']"
        raise ProfileError(f"{where}: {text!r} is {wanted}") from error


def _build(values: Mapping[str, _Value]) -> Profile:
    parts: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(Profile).items():
        if dataclasses.is_dataclass(hint):
            given = {
                key.partition(".")[2]: _located(key, item)
                for key, item in values.items()
                if key.startswith(f"{name}.")
            }
            parts[name] = typing.cast("type[Any]", hint)(**given)
        elif name in values:
            parts[name] = values[name].value
    return Profile(**parts)


def _located(key: str, item: _Value) -> Any:
    """Make paths absolute against the place they were written in."""
    if key in ("target.path", "drafter.path") and item.value:
        return locate(item.value, item.base)
    if key in ("baseline.path", "replay.states") and item.value:
        return str((item.base / Path(item.value).expanduser()).resolve())
    if key == "prompts.sets":
        return tuple(
            str((item.base / s).resolve()) if (item.base / s).is_file() else s for s in item.value
        )
    return item.value


def locate(source: str, base: Path) -> str:
    """Return the absolute folder a checkpoint source names, or the hub id it is."""
    path = base / Path(source).expanduser()
    if path.exists() or not _HUB_ID.fullmatch(source) or source.startswith("."):
        return str(path.resolve())
    return source


def _check(profile: Profile, values: Mapping[str, _Value], file: str) -> None:
    def fail(key: str, message: str) -> None:
        section = key.partition(".")[0]
        near = next((v.origin for k, v in values.items() if k.startswith(f"{section}.")), "")
        origin = values[key].origin if key in values else near or file or "default"
        raise ProfileError(f"{origin}: {key}: {message}")

    spec = profile.speculation
    for key, value in flatten(profile).items():
        minimum = _MINIMA.get(key)
        for number in value if isinstance(value, tuple) else (value,):
            if minimum is not None and number is not None and number < minimum:
                fail(key, f"{number} is below the smallest sensible value, {minimum}")
    if profile.server.port > MAX_PORT:
        fail("server.port", f"{profile.server.port} is above the largest port, {MAX_PORT}")
    wanted = _draft_tokens_problem(spec)
    if wanted:
        fail("speculation.draft_tokens", wanted)
    floor = profile.floors.accept_length
    if floor is not None and floor > spec.max_accept_length:
        fail(
            "floors.accept_length",
            f"{floor} cannot be reached: with {spec.steps} steps the accept length is at most "
            f"{spec.max_accept_length} (drafts on one path, plus the bonus token)",
        )
    rate = profile.floors.accept_rate
    if rate is not None and rate > 1:
        fail("floors.accept_rate", f"{rate} is above 1; give a share, 0.45 for 45 %")
    for key, entry in profile.unmeasured_floors:
        listed = ", ".join(str(c) for c in profile.speed.concurrencies)
        fail(key, f"concurrency {entry!r} is not measured; speed.concurrencies has {listed}")


_MINIMA: Mapping[str, float] = {
    "server.port": 0,
    "server.tp": 1,
    "server.start_timeout": 1,
    "server.request_timeout": 1,
    "speculation.steps": 1,
    "speculation.topk": 1,
    "speculation.draft_tokens": 2,
    "prompts.limit": 0,
    "prompts.max_new_tokens": 2,
    "prompts.concurrency": 1,
    "speed.concurrencies": 1,
    "speed.requests": 1,
    "speed.max_new_tokens": 2,
    "replay.prompts": 0,
    "replay.max_gigabytes": 0,
    "judging.error": 0.0001,
    "judging.margin": 0,
    "floors.accept_length": 1,
    "floors.accept_rate": 0,
}


def _draft_tokens_problem(spec: Speculation) -> str:
    """Say why the draft tokens do not fit steps and topk, or nothing.

    A chain verifies its root and one draft a step; a tree has at most topk + (steps - 1) topk²
    candidates (sglang/srt/speculative/spec_utils.py, ``organize_draft_results``).
    """
    if spec.chain and spec.draft_tokens != spec.steps + 1:
        return (
            f"{spec.draft_tokens} does not fit steps = {spec.steps} at topk = 1: a chain has "
            f"steps + 1 = {spec.steps + 1} draft tokens"
        )
    candidates = spec.topk + (spec.steps - 1) * spec.topk**2
    if spec.draft_tokens > candidates + 1:
        return (
            f"{spec.draft_tokens} is more than the tree holds: topk + (steps - 1) x topk² + 1 = "
            f"{candidates + 1}"
        )
    return ""


def _convert(key: str, value: Any, hint: Any, where: str) -> Any:
    """Return the value in the type of its key, or raise ProfileError."""
    choices = _choices(hint)
    if choices:
        if value not in choices:
            raise ProfileError(f"{where}: {key} is {value!r}; it must be one of {choices}")
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return _convert(key, value, arguments[0], where)
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(f"{key}[{i}]", v, arguments[0], where) for i, v in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        pairs = {k: _convert(f"{key}.{k}", v, arguments[1], where) for k, v in value.items()}
        return types.MappingProxyType(pairs)
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if hint in (str, int, bool) and type(value) is hint:
        return value
    wanted = _TYPE_NAMES.get(hint) or _TYPE_NAMES.get(origin, str(hint))
    raise ProfileError(f"{where}: {key} is {value!r}; it must be {wanted}")


_TYPE_NAMES: Mapping[Any, str] = {
    str: 'a text in quotes, as in "text"',
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list, as in [1, 8]",
    Mapping: "a table of names and values",
}


def _choices(hint: Any) -> tuple[str, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _nearest(key: str, known: Collection[str]) -> str:
    by_last = {k.rpartition(".")[2]: k for k in known}
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    if not near:
        tail = difflib.get_close_matches(key.rpartition(".")[2], list(by_last), n=1, cutoff=0.6)
        near = [by_last[t] for t in tail]
    return f"; the nearest valid one is {near[0]!r}" if near else "; see template.toml for all keys"


def _line(text: str, section: str, key: str) -> int:
    """Line on which a key stands; tomllib keeps no positions."""
    here = ""
    start = 1
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            here = header.group(1).replace('"', "")
            if here == f"{section}.{key}".lstrip("."):
                return number
            if here == section:
                start = number
        elif here == section and re.match(rf"\s*\"?{re.escape(key)}\"?\s*(=|\.)", line):
            return number
        elif not here and re.match(rf"\s*{re.escape(section)}\s*(=|\.)", line):
            start = number
    return start
