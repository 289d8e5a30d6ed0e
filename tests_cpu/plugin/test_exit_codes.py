"""Exit code and report of the gate, by running pytest in pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., pytest.RunResult]
Write = Callable[..., Path]
Alive = Callable[[], bool]


def result(pytester: pytest.Pytester) -> dict[str, object]:
    data = json.loads((pytester.path / "out.json").read_text())
    assert isinstance(data, dict)
    return data


def codes(data: dict[str, object], key: str) -> list[str]:
    entries = data[key]
    assert isinstance(entries, list)
    return [entry["code"] for entry in entries]


def test_pass_is_0_with_figures(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    run = run_gate("--eagle3-profile", str(write_profile()), "--eagle3-json", "out.json")
    assert run.ret == 0
    run.stdout.fnmatch_lines(
        [
            "*accept     length 2.00 *8 prompts, 80 verify steps",
            "*position   1: 0.60   2: 0.30   3: 0.10",
            "*speed *tok/s *1 stream*",
            "* tok/s *2 streams*",
            "*verdict    PASS*",
        ]
    )
    data = result(pytester)
    assert data["verdict"] == "pass"
    assert data["causes"] == []


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_low_acceptance_is_1(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run, words: tuple[str, ...]
) -> None:
    profile = write_profile(floors="accept_length = 2.5")
    run = run_gate("--eagle3-profile", str(profile), "--eagle3-json", "out.json", *words)
    assert run.ret == 1
    assert set(codes(result(pytester), "causes")) == {"ACC001"}
    run.stdout.fnmatch_lines(["*ACC001*FAIL*", "*verdict    FAIL*", "cause *not proven*"])
    run.stdout.fnmatch_lines([f"reproduce  pytest -m gpu --eagle3-profile {profile}"])


def test_the_silent_fault_is_named_before_its_symptom(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = write_profile("--histogram", "40,0,0,0", more='[speculation]\nalgorithm = "EAGLE"')
    words = ("--eagle3-profile", str(profile), "--eagle3-json", "out.json")
    assert run_gate(*words).ret == 1
    assert codes(result(pytester), "causes") == ["CFG004"]
    assert run_gate(*words, "--eagle3-keep-going").ret == 1
    assert codes(result(pytester), "causes") == ["CFG004", "WIR003"]


UNJUDGED = {
    "no-counts": (("--silent-after", "1"), "*reports none of its acceptance*"),
    "zero-steps": (("--histogram", "0,0,0,0"), "*counts zero, so it does not speculate*"),
    "dies": (("--dies-after", "4"), "*the server ended while it was measured*"),
    "does-not-start": (("--exits", "3"), "*exit code 3*"),
    "requests-fail": (("--fails-every", "3"), "*requests failed while acceptance was measured*"),
    "no-probe": (("--no-probe",), "*the probe saw no load and no forward*"),
}


@pytest.mark.parametrize(
    ("name", "words"),
    [*((name, ()) for name in UNJUDGED), ("no-counts", ("-n", "2")), ("dies", ("-n", "2"))],
)
def test_what_cannot_be_judged_is_7(
    write_profile: Write, run_gate: Run, name: str, words: tuple[str, ...]
) -> None:
    flags, expected = UNJUDGED[name]
    run = run_gate("--eagle3-profile", str(write_profile(*flags)), *words)
    assert run.ret == 7
    run.stdout.fnmatch_lines([expected, "*verdict    INCONCLUSIVE*"])
    run.stdout.no_fnmatch_line("*a test of the gate broke off*")


def test_a_server_that_does_not_start_is_not_tried_again(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    seen = str(pytester.path / "seen")
    profile = str(write_profile("--flaky", seen, "--histogram", "40,1,0,0"))
    assert run_gate("--eagle3-profile", profile, "--eagle3-bisect").ret == 125
    assert run_gate("--eagle3-profile", profile, "--eagle3-bisect").ret == 1  # the next run


def test_an_attached_server_is_measured_and_left_alone(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run, served: tuple[str, Alive]
) -> None:
    url, alive = served
    words = ("--eagle3-profile", str(write_profile()), "--eagle3-url", url, "-v")
    run = run_gate(*words, "--eagle3-json", "out.json")
    assert run.ret == 0
    assert alive()
    run.stdout.fnmatch_lines(["*WIR003*SKIP*", "*this one was attached to*", "*verdict    PASS*"])
    assert not (pytester.path / "eagle3-artefacts" / "server.log").exists()


def test_without_a_profile_nothing_was_measured_8(run_gate: Run) -> None:
    run = run_gate()
    assert run.ret == 8
    run.stdout.fnmatch_lines(["*verdict    NOT-RUN*", "*pytest -m gpu --eagle3-profile tiny*"])


def test_without_a_gpu_nothing_was_measured_8(write_profile: Write, run_gate: Run) -> None:
    profile = write_profile()
    profile.write_text(profile.read_text().replace('device = "cpu"', 'device = "auto"'))
    run = run_gate("--eagle3-profile", str(profile), "--eagle3-device", "cuda")
    assert run.ret == 8
    run.stdout.fnmatch_lines(["*verdict    NOT-RUN*", "unmeasured the profile asks for a GPU*"])


@pytest.mark.parametrize(
    ("flags", "floors", "expected"),
    [
        ((), "accept_length = 1.5", 0),
        ((), "accept_length = 2.5", 1),
        (("--silent-after", "1"), "accept_length = 1.5", 125),
        (("--dies-after", "4"), "accept_length = 1.5", 125),
        (("--exits", "1"), "accept_length = 1.5", 125),
    ],
    ids=["good", "bad", "no-counts", "dies", "does-not-start"],
)
def test_bisect_mode_knows_0_1_and_125(
    write_profile: Write, run_gate: Run, flags: tuple[str, ...], floors: str, expected: int
) -> None:
    profile = write_profile(*flags, floors=floors)
    assert run_gate("--eagle3-profile", str(profile), "--eagle3-bisect").ret == expected


def test_a_bad_profile_is_usage_4(pytester: pytest.Pytester, run_gate: Run) -> None:
    path = pytester.path / "bad.toml"
    path.write_text("[speculation]\nstep = 3\n")
    run = run_gate("--eagle3-profile", str(path))
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*bad.toml:2: unknown key*nearest valid one is 'speculation.steps'*"])


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize("expected", [4, 125])
def test_bad_prompts_are_told_before_anything_starts(
    pytester: pytest.Pytester,
    write_profile: Write,
    run_gate: Run,
    words: tuple[str, ...],
    expected: int,
) -> None:
    bisect = ("--eagle3-bisect",) if expected == 125 else ()
    profile = write_profile()
    (pytester.path / "prompts.jsonl").write_text('{"text": "a"}\n{oops\n')
    run = run_gate("--eagle3-profile", str(profile), *bisect, *words)
    assert run.ret == expected
    told = run.stdout.str() + run.stderr.str()
    assert "prompts.jsonl:2: not JSON: " in told
    assert "Traceback" not in told
    assert not (pytester.path / "eagle3-artefacts").exists()


def test_a_bad_profile_says_nothing_of_a_commit(pytester: pytest.Pytester, run_gate: Run) -> None:
    path = pytester.path / "bad.toml"
    path.write_text("[speculation]\nstep = 3\n")
    assert run_gate("--eagle3-profile", str(path), "--eagle3-bisect").ret == 125


def test_a_static_error_stops_before_the_server(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = write_profile()
    text = profile.read_text().replace('sglang = "0.5.23"', 'sglang = "0.5.9"')
    profile.write_text(text)
    drafter = pytester.path / "drafter"
    drafter.mkdir()
    run = run_gate("--eagle3-profile", str(profile), "--eagle3-draft", str(drafter))
    assert run.ret == 1
    run.stdout.fnmatch_lines(["*SRC001*FAIL*"])
    assert not (pytester.path / "eagle3-artefacts").exists()


@pytest.mark.parametrize("code", ["KEY001", "WIR003", "ACC001"])
def test_one_rule_by_its_code(write_profile: Write, run_gate: Run, code: str) -> None:
    run = run_gate("--eagle3-profile", str(write_profile()), "-k", code, "-v")
    run.assert_outcomes(passed=1, deselected=run.parseoutcomes()["deselected"])
    assert run.ret == 0


def test_one_live_rule_without_a_gpu_is_not_run(write_profile: Write, run_gate: Run) -> None:
    words = ("--eagle3-profile", str(write_profile()), "--eagle3-device", "cuda")
    assert run_gate(*words, "-k", "WIR003").ret == 8


def test_a_session_that_does_not_ask_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.mark.gpu
        def test_gate(gate):
            raise AssertionError("never runs")

        def test_other():
            heavy = {"torch", "sglang", "transformers", "eagle3_checks.gate", "rich", "requests"}
            assert not heavy & set(sys.modules)
        """
    )
    run = pytester.runpytest_subprocess("-p", "no:syrupy", "-p", "no:hypothesispytest")
    assert run.ret == 0
    run.assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_failure_is_told_once(
    write_profile: Write, run_gate: Run, words: tuple[str, ...]
) -> None:
    profile = write_profile(floors="accept_length = 2.5")
    run = run_gate("--eagle3-profile", str(profile), "-rN", *words)
    run.stdout.no_fnmatch_line("*= FAILURES =*")
    assert run.stdout.str().count("ACC001 The accept length reaches its floor") == 1


def test_a_result_that_cannot_be_written_is_no_pass(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    (pytester.path / "taken").write_text("a file, not a folder")
    words = ("--eagle3-profile", str(write_profile()), "--eagle3-json", "taken/out.json")
    run = run_gate(*words)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stdout.fnmatch_lines(["*verdict    PASS*", "*out.json cannot be written: *"])


def test_selected_rules_alone(write_profile: Write, run_gate: Run) -> None:
    run = run_gate("--eagle3-profile", str(write_profile()), "--eagle3-select", "KEY001,FUS")
    outcomes = run.parseoutcomes()
    assert run.ret == 0
    assert outcomes["deselected"] > outcomes["passed"] > 1


def test_an_ignored_finding_is_shown_and_decides_nothing(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    profile = write_profile(floors="accept_length = 2.5")
    words = ("--eagle3-profile", str(profile), "--eagle3-ignore", "ACC001=known, being trained")
    run = run_gate(*words, "--eagle3-json", "out.json")
    assert run.ret == 0
    run.stdout.fnmatch_lines(["*ACC001*IGNORED*", "*known, being trained*", "*verdict    PASS*"])
    assert codes(result(pytester), "causes") == []


def test_an_environment_that_fakes_acceptance_is_not_judged_by_it(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    variables = {"SGLANG_SIMULATE_ACC_LEN": "3", "NCCL_DEBUG": "WARN", "SGLANG_X_TOKEN": "hush-me"}
    lines = [f'{name} = "{value}"' for name, value in variables.items()]
    profile = write_profile(more="\n".join(["[server.env]", *lines]))
    run = run_gate("--eagle3-profile", str(profile), "--eagle3-json", "out.json", "-v")
    assert run.ret == 1
    data = result(pytester)
    assert codes(data, "causes") == ["SRV002"]
    run.stdout.fnmatch_lines(["ACC001*SKIP*", "*SRV002 failed*"])
    environment = data["environment"]
    assert isinstance(environment, dict)
    seen = environment["server_environment"]
    assert {name: seen[name] for name in variables} == variables | {"SGLANG_X_TOKEN": "***"}
    assert "hush-me" not in json.dumps(data)


def test_an_unknown_code_is_usage_4(write_profile: Write, run_gate: Run) -> None:
    run = run_gate("--eagle3-profile", str(write_profile()), "--eagle3-select", "KEX001")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*no rule has this code; the nearest is KEY001*"])


def test_a_gate_that_breaks_off_is_7(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    pytester.makepyfile(
        breaking="""
        from eagle3_checks.gate import Gate

        def broken(self):
            raise RuntimeError("a fault of the suite's own")

        Gate.wiring = property(broken)
        """
    )
    pytester.syspathinsert()
    words = ("--eagle3-profile", str(write_profile()), "-p", "breaking", "-n", "0")
    run = run_gate(*words)
    assert run.ret == 7
    run.stdout.fnmatch_lines(["*a fault of the suite's own*", "*verdict    INCONCLUSIVE*"])


def test_an_interrupted_gate_is_no_pass(
    pytester: pytest.Pytester, write_profile: Write, run_gate: Run
) -> None:
    pytester.makepyfile(
        interrupting="""
        from eagle3_checks.gate import Gate

        def interrupted(self):
            raise KeyboardInterrupt

        Gate.wiring = property(interrupted)
        """
    )
    pytester.syspathinsert()
    words = ("--eagle3-profile", str(write_profile()), "-p", "interrupting", "-n", "0")
    run = run_gate(*words)
    assert run.ret == pytest.ExitCode.INTERRUPTED
    run.stdout.fnmatch_lines(["*verdict    INCONCLUSIVE*"])
    run.stdout.no_fnmatch_line("*verdict    PASS*")
