"""The names under which a request's acceptance is reported in ``meta_info``, and their meaning."""

from __future__ import annotations

import ast
from typing import Any

from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import Sources, walk

PATH = "sglang/srt/managers/tokenizer_manager.py"
METHOD = "_calculate_spec_decoding_metrics"
_VERIFY = "recv_obj.spec_verify_ct[i]"
_CORRECT = {
    f"recv_obj.{name}[i]"
    for name in ("spec_accepted_tokens", "spec_accepted_drafts", "spec_num_correct_drafts")
}
_HISTOGRAM = {
    f"recv_obj.{name}[i]" for name in ("spec_acceptance_histogram", "spec_correct_drafts_histogram")
}
_LENGTH = f"recv_obj.completion_tokens[i] / {_VERIFY}"
_STEPS = "self.server_args.speculative_num_steps"
_PROPOSED = {
    f"{_VERIFY} * {_STEPS}": "steps",
    f"{_VERIFY} * (self.server_args.speculative_num_draft_tokens - 1)": "draft-tokens - 1",
    f"{_VERIFY} * (get_spec().speculative_num_draft_tokens - 1)": "draft-tokens - 1",
}
_OTHERS = ("spec_num_cap_tokens", "spec_num_block_accept_tokens", "spec_cap_lens_histogram")
"""What later kinds of drafting report; EAGLE-3 fills none of them."""


def meta_info(sources: Sources) -> dict[str, Any]:
    """Return ``meta_info_keys`` and ``meta``; a key of unknown meaning is refused."""
    module = sources.module(PATH)
    method = next((n for n in walk(module.tree, ast.FunctionDef) if n.name == METHOD), None)
    keys = _keys(method or module.tree)
    if method is None:
        keys = {key: values for key, values in keys.items() if key == "spec_verify_ct"}
    roles = {key: _role(key, values) for key, values in keys.items()}
    denominators = {roles[k][1] for k in roles if roles[k][0] == "accept_rate"}
    meta = {
        role: next((key for key in keys if roles[key][0] == role), None)
        for role in ("verify", "correct", "proposed", "histogram", "accept_length", "accept_rate")
    }
    if meta["verify"] is None:
        raise RefusedError(f"meta_info has no count of verify steps, {PATH}")
    return {
        "meta_info_keys": sorted(keys),
        "meta": {**meta, "rate_denominator": next(iter(denominators), None)},
    }


def _keys(tree: ast.AST) -> dict[str, list[str]]:
    """Map each key of ``meta_info`` to what it is set to, local names replaced by their values."""
    local = {
        node.targets[0].id: node.value
        for node in walk(tree, ast.Assign)
        if isinstance(tree, ast.FunctionDef) and isinstance(node.targets[0], ast.Name)
    }
    found: dict[str, list[str]] = {}
    for node in walk(tree, ast.Assign):
        target = node.targets[0]
        if (
            isinstance(target, ast.Subscript)
            and ast.unparse(target.value) == "meta_info"
            and isinstance(target.slice, ast.Constant)
            and str(target.slice.value).startswith("spec_")
        ):
            found.setdefault(str(target.slice.value), []).append(_inlined(node.value, local))
    return found


def _inlined(value: ast.expr, local: dict[str, ast.expr]) -> str:
    class Inline(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return self.visit(_copy(local[node.id])) if node.id in local else node

    return ast.unparse(Inline().visit(_copy(value)))


def _copy(value: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(value), mode="eval").body


def _role(key: str, values: list[str]) -> tuple[str, str | None]:
    """Return what a key reports, and for the rate what it is divided by."""
    set_to = [value for value in values if value not in {"0", "0.0"}]
    roles: set[tuple[str, str | None]] = set()
    for value in set_to:
        rate = {
            name
            for proposed, name in _PROPOSED.items()
            for correct in _CORRECT
            if value == f"{correct} / ({proposed})"
        }
        if value == _VERIFY:
            roles.add(("verify", None))
        elif value in _CORRECT:
            roles.add(("correct", None))
        elif value in _PROPOSED:
            roles.add(("proposed", None))
        elif value in _HISTOGRAM:
            roles.add(("histogram", None))
        elif value == _LENGTH:
            roles.add(("accept_length", None))
        elif rate:
            roles.add(("accept_rate", rate.pop()))
        elif any(f"recv_obj.{name}[i]" in value for name in _OTHERS):
            roles.add(("other", None))
        else:
            raise RefusedError(f"meta_info[{key!r}] is {value}, whose meaning is not known, {PATH}")
    if len(roles) != 1:
        raise RefusedError(f"meta_info[{key!r}] has {len(roles)} meanings: {values}, {PATH}")
    return roles.pop()
