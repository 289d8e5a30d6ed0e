from __future__ import annotations

import re
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
        ('{"messages": [{}]}', 'needs a "role"'),
        ('{"messages": [{"role": "user", "content": NaN}]}', "NaN is no number in JSON"),
        ('{"text": "a\\ud800"}', "half a surrogate pair"),
        ('{"text": "a", "id": null}', '"id" must be'),
        ('{"text": "a", "set": ""}', '"set" must be'),
        ('{"text": "a", "id": {}}', '"id" must be'),
        ('{"text": "a", "id": "bad-1"}', r"stands at .*bad\.jsonl:1 already"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(PromptError, match=r"bad\.jsonl:2: ") as caught:
        load_prompts(Prompts(sets=(str(path),), limit=0))
    assert re.search(expected, str(caught.value))


def test_absent_and_empty_sets(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"shipped ones are .*heldout-code"):
        load_prompts(Prompts(sets=("nope",)))
    (tmp_path / "e.jsonl").write_text("")
    with pytest.raises(PromptError, match="no prompts in"):
        load_prompts(Prompts(sets=(str(tmp_path / "e.jsonl"),)))


def test_a_set_named_twice_is_refused() -> None:
    with pytest.raises(PromptError, match=r"code\.jsonl:1 already; .*name no set twice"):
        load_prompts(Prompts(sets=("code", "code")))


@pytest.mark.parametrize("name", ["~nobody-at-all/x.jsonl", "x" * 300])
def test_a_name_that_no_path_can_have(name: str) -> None:
    with pytest.raises(PromptError, match="no prompt set"):
        load_prompts(Prompts(sets=(name,)))


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "bom.jsonl").write_text('{"text": "a"}', encoding="utf-8-sig")
    loaded = load_prompts(Prompts(sets=(str(tmp_path / "bom.jsonl"),)))
    assert [p.text for p in loaded.prompts] == ["a"]
