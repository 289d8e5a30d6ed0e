"""What the installed plugin does to the tests of a project that has nothing to do with it."""

from __future__ import annotations

import pytest

OWN = """
    import pytest

    @pytest.mark.gpu
    def test_on_their_gpu():
        pass

    @pytest.mark.gpu
    def test_that_fails_there():
        assert False

    def test_elsewhere():
        pass
"""


def test_tests_marked_gpu_by_others_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN)
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    run.assert_outcomes(passed=2, failed=1)
    assert run.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_selecting_their_gpu_tests_is_no_gate(
    pytester: pytest.Pytester, words: tuple[str, ...]
) -> None:
    pytester.makepyfile(OWN)
    own = pytester.runpytest_subprocess if words else pytester.runpytest_inprocess
    run = own("-p", "no:cacheprovider", "-m", "gpu", "-k", "on_their", *words)
    assert run.ret == pytest.ExitCode.OK
    run.assert_outcomes(passed=1, deselected=0 if words else 2)
    run.stdout.no_fnmatch_line("*verdict*")
