"""A missing tool skips a test by default and fails it in CI."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import unmeasured

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


#: What each run is: the variable that forbids skips, "" for none.
RUNS = ("", "CI", "NRI_NO_SKIP")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest prints of all cases under this project's conftest, once for each run; they run side by side."""
    folder = tmp_path_factory.mktemp("cases")
    for name, text in {**CASES, "machine": MACHINE, "xfail": XFAIL}.items():
        folder.joinpath(f"test_{name.replace(' ', '_')}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir=."]
    clean = {key: value for key, value in unmeasured().items() if key not in ("CI", "NRI_NO_SKIP")}
    clean |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    started = {
        variable: subprocess.Popen(
            [*command, "--continue-on-collection-errors"],
            cwd=folder,
            env={**clean, **({variable: "true"} if variable else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for variable in RUNS
    }
    return {variable: process.communicate(timeout=100)[0] for variable, process in started.items()}


def summary(output: str) -> str:
    """The counts of pytest's last line."""
    return output.splitlines()[-1].strip("= ").partition(" in ")[0]


def test_by_default_a_missing_tool_skips_the_test_and_is_named(outputs: dict[str, str]) -> None:
    output = outputs[""]

    assert summary(output) == f"{len(CASES) + 1} skipped, 1 xfailed", output  # one for what the machine lacks
    assert "needs the program 'no-such-program'" in output


@pytest.mark.parametrize("variable", ["CI", "NRI_NO_SKIP"])
def test_in_ci_a_missing_tool_fails_the_test(variable: str, outputs: dict[str, str]) -> None:
    output = outputs[variable]

    # skipif ends a test before it has begun, and a tool that is missing at the top of a file ends the file.
    assert summary(output) == "3 failed, 1 skipped, 1 xfailed, 2 errors", output
    assert output.count("nothing may be skipped") >= len(CASES), output


def test_in_ci_a_missing_tool_of_a_module_fails_the_module(outputs: dict[str, str]) -> None:
    assert "ERROR test_at_the_top.py - Failed: needs the program 'no-such-program'" in outputs["CI"], outputs["CI"]


def test_missing_hardware_skips_also_in_ci(outputs: dict[str, str]) -> None:
    for output in outputs.values():
        assert "this machine has no second socket" in output
        assert "XFAIL test_xfail.py::test_it" in output
