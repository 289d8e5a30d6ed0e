"""Works out what ``set_eagle3_layers_to_capture`` does, step by step, on its syntax tree.

A small part of Python is understood: what that method is written in. All else is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3_checks.contract.derive.modules import part_class
from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import ClassName, Method, Sources

SETTER = "set_eagle3_layers_to_capture"
IDS = "layers_to_capture"
MARK = "_is_layer_to_capture"

_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_BUILTINS: Mapping[str, Callable[..., Any]] = {"list": list, "max": max, "len": len}
_TRUE = frozenset({"is_last_rank", "is_first_rank"})
"""Without pipeline parallelism the one rank is the first and the last."""
_GROUPS = frozenset({"get_pp_group", "get_parallel"})
_SIZES = ("num_hidden_layers",)


class Config:
    """Any of the target's configs: its depth is all that matters here."""


class Parallel:
    """The parallel state, or a group of it."""


@dataclass
class Layer:
    """One decoder layer."""

    marks: set[str] = field(default_factory=set)


@dataclass
class Part:
    """A model, or a part of one."""

    of: ClassName
    ids: list[int] | None = None
    """What it was told to capture."""
    parts: dict[str, Part] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)

    def every(self) -> Iterable[Part]:
        """Yield this part and all below it."""
        yield self
        for part in self.parts.values():
            yield from part.every()


class _Returned(Exception):  # noqa: N818 - how a call ends, no fault
    """A ``return`` statement."""


@dataclass
class Evaluator:
    """Runs methods of one model that has `depth` layers."""

    sources: Sources
    depth: int

    def model(self, of: ClassName) -> Part:
        """Return a fresh model."""
        return Part(of, layers=[Layer() for _ in range(self.depth)])

    def call(self, part: Part, name: str, *values: Any) -> None:
        """Call a method of a part; IndexError where it reaches for a layer that is not there."""
        method = self.sources.method(part.of, name)
        if method is None:
            raise RefusedError(f"{part.of} has no {name}")
        names = [a.arg for a in method.node.args.args]
        defaults = dict.fromkeys(names[1:])
        given = zip(names[1:], values, strict=False)
        _Frame(self, method, {**defaults, names[0]: part, **dict(given)}).run()


@dataclass
class _Frame:
    """One call of a method."""

    outer: Evaluator
    method: Method
    names: dict[str, Any]

    def run(self) -> None:
        try:
            self._all(self.method.node.body)
        except _Returned:
            return

    def _refuse(self, node: ast.AST) -> RefusedError:
        return RefusedError(f"{ast.unparse(node)[:80]} is not understood, {self.method.where}")

    def _all(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._do(statement)

    def _do(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            self._all(node.body if self._value(node.test) else node.orelse)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._set(node.targets[0], self._value(node.value))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and not node.orelse:
            for value in self._value(node.iter):
                self.names[node.target.id] = value
                self._all(node.body)
        elif isinstance(node, ast.Return) and node.value is None:
            raise _Returned
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Constant):
            self._value(node.value)
        else:
            raise self._refuse(node)

    def _set(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        owner = self._value(target.value) if isinstance(target, ast.Attribute) else None
        if not isinstance(owner, Part) or not isinstance(target, ast.Attribute):
            raise self._refuse(target)
        if target.attr == IDS:
            owner.ids = list(value)
        elif target.attr != "capture_aux_hidden_states":
            raise self._refuse(target)

    def _value(self, node: ast.expr) -> Any:  # noqa: C901, PLR0911 - one branch per kind of syntax
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() if node.id in self.names:
                return self.names[node.id]
            case ast.Attribute():
                return self._attribute(node)
            case ast.List():
                return [self._value(element) for element in node.elts]
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](self._value(node.left), self._value(node.right))
            case ast.BoolOp():
                return self._logic(node)
            case ast.UnaryOp(op=ast.Not()):
                return not self._value(node.operand)
            case ast.Compare():
                return self._compare(node)
            case ast.ListComp():
                return self._comprehension(node)
            case ast.Subscript():
                found = self._value(node.value)
                if isinstance(found, list):
                    return found[self._value(node.slice)]
            case ast.Call():
                return self._call(node)
        raise self._refuse(node)

    def _logic(self, node: ast.BoolOp) -> Any:
        found: Any = None
        for operand in node.values:
            found = self._value(operand)
            if bool(found) == isinstance(node.op, ast.Or):
                break
        return found

    def _compare(self, node: ast.Compare) -> bool:
        left = self._value(node.left)
        for step, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._value(comparator)
            if type(step) not in _OPERATORS:
                raise self._refuse(node)
            if not _OPERATORS[type(step)](left, right):
                return False
            left = right
        return True

    def _comprehension(self, node: ast.ListComp) -> list[Any]:
        source = node.generators[0]
        if len(node.generators) != 1 or source.ifs or not isinstance(source.target, ast.Name):
            raise self._refuse(node)
        found: list[Any] = []
        for value in self._value(source.iter):
            self.names[source.target.id] = value
            found.append(self._value(node.elt))
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self._value(node.value)
        if isinstance(owner, Part):
            return self._part(owner, node)
        if isinstance(owner, Config):
            if node.attr in _SIZES:
                return self.outer.depth
            if node.attr.endswith("_config"):
                return owner
        if isinstance(owner, Parallel):
            if node.attr in _TRUE:
                return True
            if node.attr == "pp_group":
                return owner
        raise self._refuse(node)

    def _part(self, owner: Part, node: ast.Attribute) -> Any:
        if node.attr == "config":
            return Config()
        if node.attr == "pp_group":
            return Parallel()
        if node.attr == "layers":
            return owner.layers
        if node.attr == IDS and owner.ids is not None:
            return owner.ids
        if node.attr not in owner.parts:
            made = part_class(self.outer.sources, owner.of, node.attr)
            owner.parts[node.attr] = self.outer.model(made)
        return owner.parts[node.attr]

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise self._refuse(node)
        if isinstance(node.func, ast.Name):
            name = node.func.id
            if name in _GROUPS:
                return Parallel()
            values = [self._value(a) for a in node.args]
            if name in _BUILTINS:
                return _BUILTINS[name](*values)
            if name == "hasattr" and isinstance(values[0], Part):
                return self.outer.sources.method(values[0].of, values[1]) is not None
            if name == "setattr" and isinstance(values[0], Layer) and values[1:] == [MARK, True]:
                return values[0].marks.add(MARK)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == SETTER:
            owner = self._value(node.func.value)
            if isinstance(owner, Part):
                return self.outer.call(owner, SETTER, *(self._value(a) for a in node.args))
        raise self._refuse(node)
