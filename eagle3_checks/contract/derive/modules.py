"""Which class a model's constructor makes a part of it from, as in ``self.model = X(...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import ClassName, Method, Sources, walk

_Given = tuple[ClassName, ast.expr]
"""An expression, and the class in whose file it stands."""


def part_class(sources: Sources, owner: ClassName, part: str) -> ClassName:
    """Return the class of ``self.<part>``; refused where the constructors do not say it clearly."""
    for method, given in _constructors(sources, owner):
        made = [
            _made(sources, owner, method, given, node.value)
            for node in walk(method.node, ast.Assign)
            if any(ast.unparse(target) == f"self.{part}" for target in node.targets)
            and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        ]
        if len(set(made)) > 1:
            raise RefusedError(f"self.{part} may be {' or '.join(map(str, made))}, {method.where}")
        if made:
            return made[0]
    raise RefusedError(f"no constructor of {owner} sets self.{part}")


def _constructors(
    sources: Sources, owner: ClassName
) -> Iterator[tuple[Method, Mapping[str, _Given]]]:
    """Yield the constructors that run, most derived first, with what they are called with."""
    method = sources.method(owner, "__init__")
    given: dict[str, _Given] = {}
    while method is not None:
        given = {**_defaults(method), **given}
        yield method, given
        call = next(
            (c for c in walk(method.node, ast.Call) if ast.unparse(c.func) == "super().__init__"),
            None,
        )
        if call is None:
            return
        following = sources.method(owner, "__init__", after=method.owner)
        given = _passed(method, call, given, following) if following else {}
        method = following


def _defaults(method: Method) -> dict[str, _Given]:
    arguments = method.node.args
    named = [a.arg for a in arguments.args]
    with_default = named[len(named) - len(arguments.defaults) :]
    pairs = list(zip(with_default, arguments.defaults, strict=True))
    pairs += [
        (a.arg, value)
        for a, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    ]
    return {name: (method.owner, value) for name, value in pairs}


def _passed(
    method: Method, call: ast.Call, given: Mapping[str, _Given], following: Method
) -> dict[str, _Given]:
    names = [a.arg for a in following.node.args.args][1:]
    values = list(zip(names, call.args, strict=False))
    values += [(k.arg, k.value) for k in call.keywords if k.arg]
    passed: dict[str, _Given] = {}
    for name, value in values:
        own = given.get(value.id) if isinstance(value, ast.Name) else None
        passed[name] = own or (method.owner, value)
    return passed


def _made(
    sources: Sources,
    owner: ClassName,
    method: Method,
    given: Mapping[str, _Given],
    value: ast.expr,
) -> ClassName:
    """Return the class that an expression makes an instance of."""
    unclear = RefusedError(f"{ast.unparse(value)[:80]} is of no clear class, {method.where}")
    if not isinstance(value, ast.Call):
        raise unclear
    if isinstance(value.func, ast.Name) and value.func.id in given:
        where, named = given[value.func.id]
        found = sources.resolve(where.path, named)
    elif isinstance(value.func, ast.Attribute) and ast.unparse(value.func.value) == "self":
        return _made_by_self(sources, owner, value.func.attr, unclear)
    else:
        found = sources.resolve(method.owner.path, value.func)
    if found is None:
        raise unclear
    return found


def _made_by_self(
    sources: Sources, owner: ClassName, name: str, unclear: RefusedError
) -> ClassName:
    """Follow ``self._init_model(...)``, a method that returns a new part, or a class attribute."""
    named = sources.class_value(owner, name)
    if named is not None:
        found = sources.resolve(named[0].path, named[1])
        if found is not None:
            return found
    factory = sources.method(owner, name)
    returned = list(walk(factory.node, ast.Return)) if factory else []
    if factory is None or len(returned) != 1 or returned[0].value is None:
        raise unclear
    return _made(sources, owner, factory, {}, returned[0].value)
