"""How each target class captures aux hidden states, in the contract's own words.

Every class is asked by example: its setter is worked out (`evaluate`) for a few depths and ids,
and what it wants captured must be explained by one of the known rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eagle3_checks.contract.capture import CANNOT, CaptureRule, Shift
from eagle3_checks.contract.derive.evaluate import IDS, MARK, SETTER, Evaluator, Part
from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import ClassName, Method, Sources, walk

DRAFT_HEADS = ("NextN", "MTP", "Eagle", "Eagle3")
"""Ends of the names of classes that draft; they are no targets."""
OUTSIDE = ("MindSporeForCausalLM",)
"""Classes that hand on to code outside of SGLang, chosen by a flag and never by a config."""

_DEPTHS = (24, 61)
_SHIFTS: tuple[Shift, ...] = ("next", "first-1", "max-depth", "fixed")


def target_rules(sources: Sources) -> dict[str, str]:
    """Map every architecture that may be a target to its rule, or to `CANNOT`."""
    found: dict[str, str] = {}
    for name, of in sources.architectures():
        if name.endswith(DRAFT_HEADS) or "Assistant" in name or name in OUTSIDE:
            continue
        found[name] = target_rule(sources, of)
    return dict(sorted(found.items()))


def target_rule(sources: Sources, of: ClassName) -> str:
    """Return the rule of one class; RefusedError where no known one explains what it does."""
    if sources.method(of, SETTER) is None:
        return CANNOT
    seen = [_Seen.ask(sources, of, depth) for depth in _DEPTHS]
    reading = _Reading.of(sources, seen[0].default.reader)
    words = [_shift(of, seen), _default(of, seen), *_by(of, seen, reading)]
    words += ["last" if reading.last else "", "packed" if reading.packed else ""]
    return " ".join(word for word in words if word)


@dataclass(frozen=True)
class _Wanted:
    """What one call of the setter leaves behind."""

    ids: list[int]
    marked: list[int]
    out_of_range: bool
    reader: ClassName


@dataclass(frozen=True)
class _Seen:
    """What the setter wants for each example, at one depth."""

    depth: int
    default: _Wanted
    by_ids: Mapping[tuple[int, ...], _Wanted]

    @property
    def last(self) -> int:
        """The last layer."""
        return self.depth - 1

    @classmethod
    def ask(cls, sources: Sources, of: ClassName, depth: int) -> _Seen:
        examples = ((4, 9, 15), (1, 9, 15), (2, 9, 16), (4, 9, depth - 1), (4, 9, depth))
        return cls(
            depth,
            _call(sources, of, depth, None),
            {ids: _call(sources, of, depth, ids) for ids in examples},
        )


def _call(sources: Sources, of: ClassName, depth: int, ids: tuple[int, ...] | None) -> _Wanted:
    evaluator = Evaluator(sources, depth)
    model = evaluator.model(of)
    out_of_range = False
    try:
        evaluator.call(model, SETTER, None if ids is None else list(ids))
    except IndexError:
        out_of_range = True
    told = [part for part in model.every() if part.ids is not None]
    if len(told) != 1 or told[0].ids is None:
        raise RefusedError(f"{of} tells {len(told)} of its parts what to capture")
    marked = [i for i, layer in enumerate(told[0].layers) if MARK in layer.marks]
    _only_marks(of, model, told[0])
    return _Wanted(told[0].ids, marked, out_of_range, told[0].of)


def _only_marks(of: ClassName, model: Part, told: Part) -> None:
    for part in model.every():
        if part is not told and any(layer.marks for layer in part.layers):
            raise RefusedError(f"{of} marks layers of another part than the one it tells ids")


def _shift(of: ClassName, seen: list[_Seen]) -> str:
    for shift in _SHIFTS:
        rule = CaptureRule(shift=shift)
        if all(
            tuple(wanted.ids) == rule.wanted(ids, one.depth)
            for one in seen
            for ids, wanted in one.by_ids.items()
        ):
            return shift
    raise RefusedError(f"{of} shifts ids by no known rule: {seen[0].by_ids}")


def _default(of: ClassName, seen: list[_Seen]) -> str:
    for word, shift in (("", 0), ("default+1", 1)):
        if all(
            one.default.ids == [i + shift for i in (2, one.depth // 2, one.depth - 3)]
            for one in seen
        ):
            return word
    raise RefusedError(f"{of} captures {seen[0].default.ids} of {seen[0].depth} layers by default")


def _by(of: ClassName, seen: list[_Seen], reading: _Reading) -> list[str]:
    """Say what the forward pass goes by, and whether ids beyond the last layer stop the setter."""
    beyond = {w.out_of_range for one in seen for w in one.by_ids.values() if max(w.ids) > one.last}
    if len(beyond) > 1:
        raise RefusedError(f"{of} stops at ids beyond its last layer now and then")
    strict = ["strict"] if beyond == {True} else []
    if reading.ids:
        return strict
    wanted = [(w, one.last) for one in seen for w in (one.default, *one.by_ids.values())]
    if not reading.marks or not any(w.marked for w, _ in wanted):
        return ["nothing"]
    for one, last in wanted:
        if one.marked != sorted({i for i in one.ids if 0 <= i <= last}):
            raise RefusedError(f"{of} marks {one.marked} for {one.ids}")
    return ["marks", *strict]


@dataclass(frozen=True)
class _Reading:
    """How a model's forward pass decides what to capture."""

    ids: bool
    marks: bool
    last: bool
    """Whether the state behind the last layer can be captured."""
    packed: bool
    """Whether it stops where it captured fewer states than it was told."""

    @classmethod
    def of(cls, sources: Sources, reader: ClassName) -> _Reading:
        """Read forward and all that it calls of the same model."""
        methods = list(_called(sources, reader, "forward"))
        if not methods:
            raise RefusedError(f"{reader} has no forward")
        places = {
            _place(method, node.left)
            for method in methods
            for node in walk(method.node, ast.Compare)
            if isinstance(node.ops[0], ast.In) and ast.unparse(node.comparators[0]) == f"self.{IDS}"
        }
        text = "".join(ast.unparse(method.node) for method in methods)
        return cls(
            ids="each" in places,
            marks=MARK in text,
            last="last" in places,
            packed="AuxHiddenStatePacker(" in text,
        )


def _called(sources: Sources, reader: ClassName, name: str) -> Iterator[Method]:
    """Yield a method and those that it calls on self or super, each once."""
    first = sources.method(reader, name)
    waiting, known = [first] if first else [], set[str]()
    while waiting:
        method = waiting.pop()
        if method.where in known:
            continue
        known.add(method.where)
        yield method
        for call in walk(method.node, ast.Call):
            if isinstance(call.func, ast.Attribute):
                owner = ast.unparse(call.func.value)
                after = method.owner if owner == "super()" else None
                if owner in {"self", "super()"}:
                    found = sources.method(reader, call.func.attr, after=after)
                    waiting += [found] if found else []


def _place(method: Method, test: ast.expr) -> str:
    """Say at which boundary a test for capturing stands: before each layer, or behind the last."""
    counters: set[str] = set()
    for loop in walk(method.node, ast.For):
        numbered = isinstance(loop.target, ast.Tuple) and ast.unparse(loop.iter).startswith(
            "enumerate("
        )
        target = loop.target.elts[0] if numbered else loop.target  # type: ignore[attr-defined]
        counters.add(ast.unparse(target))
    text = ast.unparse(test)
    if text in counters or text == "self.start_layer":
        return "each"
    if text in {"self.end_layer", "num_layers"} or text in {f"{c} + 1" for c in counters}:
        return "last"
    raise RefusedError(f"{text} in self.{IDS} is no boundary that is known, {method.where}")
