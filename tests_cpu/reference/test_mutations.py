"""Bugs planted in the reference, each of which the comparison with a server's way must catch."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from eagle3_checks.reference import attention, drafter, drafting, replay
from tests_cpu.reference import test_drafting, test_replay
from tests_cpu.reference.test_drafting import FORMS

TREES = {
    "scores added": (drafting, "[:, :, None] * chance", "[:, :, None] + chance"),
    "scores of the last step": (drafting, "self._path[:, :, None] * chance", "chance"),
    "nodes by score": (drafting, ".indices.sort(dim=-1).values", ".indices"),
    "a wrong branch goes on": (drafting, "hidden[rows, parents]", "hidden[rows, 0 * parents]"),
    "roots in the wrong order": (drafting, "roots.repeat_interleave(topk)", "roots.repeat(topk)"),
    "parents one off": (drafting, "(selected - topk) // topk", "selected // topk"),
    "draft ids not mapped": (drafting, "kept[index]", "index"),
    "the root's own token": (drafting, "tokens[roots + 1]", "tokens[roots]"),
    "positions stand still": (drafter, "turn(at + depth)", "turn(at)"),
    "positions run twice": (drafter, "turn(at + depth)", "turn(at + 2 * depth)"),
    "a row forgets": (attention, "self.steps.append((k, v))", "self.steps[:] = [(k, v)]"),
    "the root is not seen": (attention, "positions > at[", "positions >= at["),
    "a row sees ahead": (attention, "positions > at[", "positions - 1 > at["),
}
COUNTS = {
    "bonus token forgotten": (replay, "known + correct + 1\n", "known + max(correct, 1)\n"),
    "an end is passed over": (replay, "if ends.intersection(", "if () and ends.intersection("),
    "cut at the end": (replay, "tokens[known:])", "tokens[known : span.stop])"),
}


def plant(patch: pytest.MonkeyPatch, module: ModuleType, old: str, new: str) -> None:
    """Put functions and methods of a changed source in the place of a module's."""
    source = Path(str(module.__file__)).read_text()
    assert source.count(old) == 1, old
    space = dict(vars(module))
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), space)  # noqa: S102
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            patch.setattr(module, name, space[name])
            for other in (test_drafting, test_replay):
                if getattr(other, name, None) is value:
                    patch.setattr(other, name, space[name])
        elif isinstance(value, type):
            for method, changed in vars(space[name]).items():
                if isinstance(changed, FunctionType) and method != "__init__":
                    patch.setattr(value, method, changed)


def compare_trees() -> None:
    for form in FORMS:
        test_drafting.test_trees_drafted_at_once_equal_one_drafted_token_by_token(form)


@pytest.mark.parametrize("bug", TREES)
def test_a_bug_in_the_trees_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, *TREES[bug])
    with pytest.raises(AssertionError):
        compare_trees()


@pytest.mark.parametrize("bug", COUNTS)
def test_a_bug_in_the_counts_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, *COUNTS[bug])
    with pytest.raises(AssertionError):
        test_replay.test_counts_are_those_of_a_server()


def test_without_a_bug_both_hold() -> None:
    compare_trees()
    test_replay.test_counts_are_those_of_a_server()
