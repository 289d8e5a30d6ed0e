from __future__ import annotations

import json
from typing import TYPE_CHECKING

from eagle3_checks.reference.corpus import is_held_out, read_corpus

if TYPE_CHECKING:
    from pathlib import Path


def test_training_and_held_out_files_are_disjoint() -> None:
    corpus = read_corpus()
    training = {file.path for file in corpus.training}
    held_out = {file.path for file in corpus.held_out}
    assert len(training) > 400
    assert len(held_out) > 20
    assert not training & held_out
    assert not {file.text for file in corpus.training} & {file.text for file in corpus.held_out}


def test_order_does_not_depend_on_the_file_system(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "test/t.py", "a/tests/t.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text("x = 1\n" * 100)
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9\n" * 100)
    (tmp_path / "short.py").write_text("x = 1\n")
    corpus = read_corpus(tmp_path)
    names = [file.path for file in (*corpus.training, *corpus.held_out)]
    assert sorted(names) == ["a.py", "a/z.py", "b.py"]


def test_the_split_goes_by_the_name_alone() -> None:
    assert is_held_out("shutil.py")
    assert not is_held_out("argparse.py")


def test_shipped_prompts_come_from_held_out_files(prompt_folder: Path) -> None:
    lines = (prompt_folder / "heldout-code.jsonl").read_text().splitlines()
    prompts = [json.loads(line) for line in lines]
    assert len(prompts) == len({prompt["id"] for prompt in prompts}) == 80
    assert {prompt["set"] for prompt in prompts} == {"code"}
    for prompt in prompts:
        assert is_held_out(prompt["id"].rpartition(":")[0])


def test_no_shipped_prompt_stands_in_a_training_file(prompt_folder: Path) -> None:
    training = "\n".join(file.text for file in read_corpus().training)
    for line in (prompt_folder / "heldout-code.jsonl").read_text().splitlines():
        assert json.loads(line)["text"] not in training


def test_chat_prompts_are_eighty_of_four_kinds(prompt_folder: Path) -> None:
    lines = (prompt_folder / "chat-general.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = [json.loads(line) for line in lines]
    assert len({prompt["id"] for prompt in prompts}) == 80
    for kind in ("chat", "code", "math", "multilingual"):
        assert sum(prompt["set"] == kind for prompt in prompts) == 20
    assert all(prompt["messages"][0]["role"] == "user" for prompt in prompts)
