"""A missing tool skips at home and fails where nothing may be skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CASES = {
    "need_tool": "from tests.support.needs import need_tool\ndef test_it():\n    need_tool('no-such-program')\n",
    "need": "from tests.support.needs import need\ndef test_it():\n    need(False, 'a no-such-program')\n",
    "at the top": "from tests.support.needs import need_tool\nneed_tool('no-such-program')\ndef test_it(): ...\n",
    "plain skip": "import pytest\ndef test_it():\n    pytest.skip('no no-such-program')\n",
    "skipif": "import pytest\n@pytest.mark.skipif(True, reason='no no-such-program')\ndef test_it(): ...\n",
}
MACHINE = "from tests.support.needs import need_machine\ndef test_it():\n    need_machine(False, 'second socket')\n"
XFAIL = "import pytest\n@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert 0\n"


def run_pytest(folder: Path, text: str, **environment: str) -> tuple[int, str]:
    """Run one test file under this project's conftest: (exit code, output)."""
    folder.joinpath("test_it.py").write_text(text)
    clean = {key: value for key, value in os.environ.items() if key not in ("CI", "NRI_NO_SKIP")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir=."],
        cwd=folder,
        env={**clean, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_a_missing_tool_skips_and_is_named(case: str, tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, CASES[case])

    assert code in (0, 5), output
    assert "1 skipped" in output
    assert "no-such-program" in output


@pytest.mark.parametrize("variable", ["CI", "NRI_NO_SKIP"])
@pytest.mark.parametrize("case", CASES)
def test_a_missing_tool_fails_where_nothing_may_be_skipped(case: str, variable: str, tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, CASES[case], **{variable: "true"})

    assert code not in (0, 5), output
    assert "no-such-program" in output


def test_what_no_installation_can_supply_skips_everywhere(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, MACHINE, CI="true")

    assert code == 0, output
    assert "this machine has no second socket" in output


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, XFAIL, CI="true")

    assert code == 0, output
    assert "1 xfailed" in output
