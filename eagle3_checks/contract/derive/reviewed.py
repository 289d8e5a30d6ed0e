"""Methods whose every form was read by a person, by fingerprint.

The facts of the loader rest on what these methods do. Where a release changes one of them, the
derivation refuses until someone has read it: `reviewed.json` then gains its new fingerprint, and
the facts, or `eagle3_checks.contract`, what it does differently.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import ClassName, Sources

LENGTH = 12
"""Hexadecimal digits of a fingerprint."""


def check_reviewed(sources: Sources) -> None:
    """Look at every method that is listed; forms that nobody read are refused, by name."""
    unknown: list[str] = []
    for key, forms in _listed().items():
        path, _, qualified = key.partition(":")
        if path not in sources.release.paths:
            continue
        seen = fingerprint(sources, path, qualified)
        if seen not in forms:
            unknown.append(f'{key} ("{seen}": "{sources.release.version}")')
    if unknown:
        raise RefusedError(
            f"methods with a form that was not reviewed: {len(unknown)}; read each, and add its "
            f"fingerprint to reviewed.json: {'; '.join(unknown)}"
        )


def fingerprint(sources: Sources, path: str, qualified: str) -> str:
    """Return the fingerprint of a function or ``Class.method``; "absent" where there is none."""
    owner, _, name = qualified.rpartition(".")
    module = sources.module(path)
    if owner and owner not in module.classes:
        return "absent"
    body = sources.class_node(ClassName(path, owner)).body if owner else module.tree.body
    node = next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if node is None:
        return "absent"
    return hashlib.sha256(plain(node).encode()).hexdigest()[:LENGTH]


def plain(node: ast.FunctionDef) -> str:
    """Return a function's text without comments, docstrings and annotations."""
    copy = ast.parse(ast.unparse(node))
    return ast.unparse(_Plain().visit(copy))


class _Plain(ast.NodeTransformer):
    """Takes out what has no effect."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)


@cache
def _listed() -> Mapping[str, Mapping[str, str]]:
    text = Path(__file__).with_name("reviewed.json").read_text(encoding="utf-8")
    listed: Mapping[str, Mapping[str, str]] = json.loads(text)
    return listed
