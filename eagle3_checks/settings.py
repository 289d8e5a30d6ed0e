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

from eagle3_checks import limits, shipped
from eagle3_checks.profile import Profile, Resolved

ENV_PREFIX = "EAGLE3_CHECKS_"
ENV_SHORT = {
    "TARGET": "target.path",
    "DRAFT": "drafter.path",
    "URL": "server.url",
    "DEVICE": "server.device",
}
ENV_RESERVED = frozenset({"PROFILE", "API_KEY", "CACHE"})
MAX_PROFILE_BYTES = 1 << 20
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


class ProfileError(ValueError):
    """A profile that cannot be used; the message says where, what was expected and what to do."""


@dataclasses.dataclass(frozen=True)
class _Value:
    value: Any
    origin: str
    base: Path  # relative paths start there


def find_profile(name: str) -> Path:
    """Return the file of a profile given by path or by shipped name; else raise ProfileError."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    built_in = shipped.shipped("fixtures", "profiles", f"{name}.toml")
    if re.fullmatch(r"[\w.-]+", name) and built_in.is_file():
        return built_in
    if path.exists():
        raise ProfileError(f"{name}: it is no regular file; give the TOML file of a profile")
    names = ", ".join(shipped.names("profiles", ".toml"))
    raise ProfileError(f"no profile {name!r}: no such file, and the built-in ones are {names}")


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
        place = re.search(r"line (\d+)", str(error))  # none where it is the document's end
        line = place.group(1) if place else text.rstrip().count("\n") + 1
        raise ProfileError(f"{path}:{line}: not valid TOML: {error}") from error
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
        wanted = "write 3, 1.5, true or ['a', 'b']"
        raise ProfileError(f"{where}: {text!r} is not a TOML value; {wanted}") from error


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
        files = ((name, item.base / name) for name in item.value)
        return tuple(str(f.resolve()) if f.is_file() else name for name, f in files)
    return item.value


def locate(source: str, base: Path) -> str:
    """Return the absolute folder a checkpoint source names, or the hub id it is."""
    path = base / Path(source).expanduser()
    if path.exists() or not _HUB_ID.fullmatch(source) or source.startswith("."):
        return str(path.resolve())
    return source


def _check(profile: Profile, values: Mapping[str, _Value], file: str) -> None:
    for key, message in limits.faults(profile, flatten(profile)):
        section = key.partition(".")[0]
        near = next((v.origin for k, v in values.items() if k.startswith(f"{section}.")), "")
        origin = values[key].origin if key in values else near or file or "default"
        raise ProfileError(f"{origin}: {key}: {message}")


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
    here, start = "", 1
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
