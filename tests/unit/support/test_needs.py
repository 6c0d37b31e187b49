"""A missing tool skips at home and fails where nothing may be skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
AT_THE_TOP = "at the top"
CASES = {
    "need_tool": "from tests.support.needs import need_tool\ndef test_it():\n    need_tool('no-such-program')\n",
    "need": "from tests.support.needs import need\ndef test_it():\n    need(False, 'a no-such-program')\n",
    AT_THE_TOP: "from tests.support.needs import need_tool\nneed_tool('no-such-program')\ndef test_it(): ...\n",
    "plain skip": "import pytest\ndef test_it():\n    pytest.skip('no no-such-program')\n",
    "skipif": "import pytest\n@pytest.mark.skipif(True, reason='no no-such-program')\ndef test_it(): ...\n",
}
MACHINE = "from tests.support.needs import need_machine\ndef test_it():\n    need_machine(False, 'second socket')\n"
XFAIL = "import pytest\n@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert 0\n"


def run_pytest(folder: Path, files: dict[str, str], **environment: str) -> str:
    """Run test files under this project's conftest; returns what was printed."""
    for name, text in files.items():
        folder.joinpath(f"test_{name.replace(' ', '_')}.py").write_text(text)
    clean = {key: value for key, value in os.environ.items() if key not in ("CI", "NRI_NO_SKIP")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir=."],
        cwd=folder,
        env={**clean, **environment, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def summary(output: str) -> str:
    """The counts of pytest's last line."""
    return output.splitlines()[-1].strip("= ").partition(" in ")[0]


def test_a_missing_tool_skips_and_is_named(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, CASES)

    assert summary(output) == f"{len(CASES)} skipped"
    assert "no-such-program" in output


@pytest.mark.parametrize("variable", ["CI", "NRI_NO_SKIP"])
def test_a_missing_tool_fails_where_nothing_may_be_skipped(variable: str, tmp_path: Path) -> None:
    output = run_pytest(tmp_path, {name: text for name, text in CASES.items() if name != AT_THE_TOP}, **{variable: "1"})

    assert summary(output) == "3 failed, 1 error", output  # skipif ends a test before it has begun
    assert output.count("nothing may be skipped") >= len(CASES) - 1, output


def test_a_missing_tool_at_the_top_of_a_file_fails_it_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, {AT_THE_TOP: CASES[AT_THE_TOP]}, CI="true")

    assert summary(output) == "1 error"
    assert "needs the program 'no-such-program'" in output


def test_what_the_machine_lacks_skips_everywhere_and_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, {"machine": MACHINE, "xfail": XFAIL}, CI="true")

    assert "this machine has no second socket" in output
    assert summary(output) == "1 skipped, 1 xfailed"
