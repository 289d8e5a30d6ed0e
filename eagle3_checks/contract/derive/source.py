"""Classes of SGLang's model files by name, with their bases and methods, from the source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from eagle3_checks.contract.derive.release import RefusedError, Release

MODELS = "sglang/srt/models"
_DEEPEST_IMPORT = 8

_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True)
class ClassName:
    """A class, by the file that defines it."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.path.removeprefix('sglang/srt/')})"


@dataclass(frozen=True)
class Method:
    """A method, and the class that defines it."""

    owner: ClassName
    node: ast.FunctionDef

    @property
    def where(self) -> str:
        """The method for messages, with its line."""
        return f"{self.owner.name}.{self.node.name}, {self.owner.path}:{self.node.lineno}"


@dataclass(frozen=True)
class Module:
    """One parsed file."""

    path: str
    tree: ast.Module

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes defined at the top level."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def imported(self, name: str) -> tuple[str, str] | None:
        """Return the module a name is imported from, and its name there; None where it is not."""
        return self._imports.get(name) or self._inner_imports.get(name)

    @cached_property
    def _imports(self) -> dict[str, tuple[str, str]]:
        return _taken(_outside(self.tree.body))

    @cached_property
    def _inner_imports(self) -> dict[str, tuple[str, str]]:
        return _taken(ast.walk(self.tree))

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Names in ``EntryClass``: the architectures that the file serves."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EntryClass":
                values = node.value.elts if isinstance(node.value, ast.List) else [node.value]
                if not all(isinstance(value, ast.Name) for value in values):
                    raise RefusedError(f"EntryClass is no list of names, {self.path}:{node.lineno}")
                return tuple(ast.unparse(value) for value in values)
        return ()


@dataclass(frozen=True)
class Sources:
    """All files of one release, parsed when asked for."""

    release: Release
    _modules: dict[str, Module] = field(default_factory=dict)

    def module(self, path: str) -> Module:
        """Return a parsed file; RefusedError where there is none."""
        if path not in self._modules:
            self._modules[path] = Module(path, ast.parse(self.release.text(path), path))
        return self._modules[path]

    def architectures(self) -> Iterator[tuple[str, ClassName]]:
        """Yield every architecture that SGLang registers, with its class."""
        for path in self.release.folder(MODELS):
            module = self.module(path)
            for name in module.entries:
                found = self.find(path, name)
                if found is None:
                    raise RefusedError(f"EntryClass names {name}, which is not found, {path}")
                yield name, found

    def find(self, path: str, name: str, *, within: str = "", depth: int = 0) -> ClassName | None:
        """Resolve a name as a file uses it; None for what is not SGLang's.

        A class may be named as the import that it extends: `within` is the class asking.
        """
        module = self.module(path)
        if name in module.classes and not (name == within and module.imported(name)):
            return ClassName(path, name)
        source = module.imported(name)
        if source is None or depth > _DEEPEST_IMPORT:
            return None
        other = self._path(source[0])
        return self.find(other, source[1], depth=depth + 1) if other else None

    def resolve(self, path: str, value: ast.expr, *, within: str = "") -> ClassName | None:
        """Resolve a class named in an expression, ``Name`` or ``module.Name``; None otherwise."""
        if isinstance(value, ast.Name):
            return self.find(path, value.id, within=within)
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            source = self.module(path).imported(value.value.id)
            other = self._path(".".join(source)) if source else None
            return self.find(other, value.attr) if other else None
        return None

    def _path(self, module: str) -> str | None:
        """Return the file of a module of SGLang's, by its dotted name."""
        base = module.replace(".", "/")
        return next(
            (p for p in (f"{base}.py", f"{base}/__init__.py") if p in self.release.paths), None
        )

    def class_node(self, name: ClassName) -> ast.ClassDef:
        """Return the class's definition."""
        return self.module(name.path).classes[name.name]

    def lineage(self, name: ClassName) -> tuple[ClassName, ...]:
        """Return the class and its bases in method resolution order, those of SGLang alone."""
        bases = [
            found
            for base in self.class_node(name).bases
            if (found := self.resolve(name.path, base, within=name.name))
        ]
        return (name, *_merge([list(self.lineage(base)) for base in bases] + [bases], name))

    def method(
        self, owner: ClassName, name: str, *, after: ClassName | None = None
    ) -> Method | None:
        """Return a method of a class or of its bases; `after` looks behind that base alone."""
        lineage = self.lineage(owner)
        if after is not None:
            lineage = lineage[lineage.index(after) + 1 :]
        for base in lineage:
            for node in self.class_node(base).body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return Method(base, node)
        return None

    def class_value(self, owner: ClassName, name: str) -> tuple[ClassName, ast.expr] | None:
        """Return what a class attribute is set to, and the class that does it."""
        for base in self.lineage(owner):
            for node in self.class_node(base).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    assert isinstance(node, ast.Assign)  # noqa: S101 - for the type checker
                    return base, node.value
                if (
                    isinstance(node, ast.AnnAssign)
                    and node.value is not None
                    and ast.unparse(node.target) == name
                ):
                    return base, node.value
        return None


def _merge(lines: list[list[ClassName]], owner: ClassName) -> Iterator[ClassName]:
    """C3 linearisation of the bases' own orders."""
    lines = [line for line in lines if line]
    while lines:
        heads = (line[0] for line in lines)
        head = next((h for h in heads if not any(h in line[1:] for line in lines)), None)
        if head is None:
            raise RefusedError(f"the bases of {owner} have no order")
        yield head
        lines = [rest for line in lines if (rest := [c for c in line if c != head])]


def _taken(nodes: Iterable[ast.AST]) -> dict[str, tuple[str, str]]:
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }


def _outside(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module that are in no function or class."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            for inner in (node.body, node.orelse, getattr(node, "finalbody", [])):
                yield from _outside(inner)


def walk(tree: ast.AST, kind: type[_Node]) -> Iterator[_Node]:
    """Yield all nodes of one kind."""
    yield from (node for node in ast.walk(tree) if isinstance(node, kind))
