from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.measure.prompts import PromptError, load_prompts
from eagle3_checks.profile import Prompts
from eagle3_checks.shipped import names, shipped

SIZES = {
    "chat": 24,
    "chat-general": 80,
    "code": 24,
    "heldout-code": 80,
    "long-context": 20,
    "math": 24,
    "multilingual": 24,
    "structured-output": 24,
}


@pytest.mark.parametrize("name", names("prompts", ".jsonl"))
def test_shipped_sets(name: str) -> None:
    loaded = load_prompts(Prompts(sets=(name,), limit=0)).prompts
    assert len(loaded) == SIZES[name]
    assert all(bool(p.text) != bool(p.messages) for p in loaded)


def test_no_prompt_stands_in_two_sets() -> None:
    loaded = load_prompts(Prompts(sets=tuple(SIZES), limit=0)).prompts
    assert len(loaded) == sum(SIZES.values())
    assert len({p.id for p in loaded}) == len(loaded)
    assert len({p.text or str(p.messages) for p in loaded}) == len(loaded)


def test_every_set_and_licence_is_stated() -> None:
    text = shipped("fixtures", "prompts", "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {f"{name}.jsonl" for name in SIZES}
    assert all(row.rstrip(" |").endswith(("Apache-2.0", "PSF-2.0")) for row in rows)


def test_own_sets_limits_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"text": "a"}\n\n{"messages": [{"role": "user", "content": "b"}], "id": "x"}\n'
    )
    both = load_prompts(Prompts(sets=(str(path),), limit=0))
    assert [(p.id, p.set) for p in both.prompts] == [("mine-1", "mine"), ("x", "mine")]
    one = load_prompts(Prompts(sets=(str(path),), limit=1))
    assert len(one.prompts) == 1
    assert one.sha256 != both.sha256
    assert one.sha256 == load_prompts(Prompts(sets=(str(path),), limit=1)).sha256


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "not JSON"),
        ("[]", 'needs "text"'),
        ("{}", 'needs "text"'),
        ('{"text": 3}', 'needs "text"'),
        ('{"text": "a", "messages": [{}]}', 'needs "text"'),
        ('{"messages": ["a"]}', 'needs "text"'),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(PromptError, match=r"bad\.jsonl:2: ") as caught:
        load_prompts(Prompts(sets=(str(path),), limit=0))
    assert expected in str(caught.value)


def test_absent_and_empty_sets(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"shipped ones are .*heldout-code"):
        load_prompts(Prompts(sets=("nope",)))
    (tmp_path / "e.jsonl").write_text("")
    with pytest.raises(PromptError, match="no prompts in"):
        load_prompts(Prompts(sets=(str(tmp_path / "e.jsonl"),)))
