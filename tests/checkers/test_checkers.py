"""Type checkers see a user's plugin as the user does: mypy --strict, and pyright in strict mode.

The example plugins and `handlers.py` pass both; in `mistakes.py` both find each line that is marked, and no other.
basedpyright is pyright with its Node.js in the wheel; in this mode its rules are pyright's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import need

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples" / "plugins"
BIN = Path(sys.executable).parent
RIGHT = [HERE / "handlers.py", *sorted(EXAMPLES.glob("*.py"))]
WRONG = HERE / "mistakes.py"

#: A file and a line of it -> what is wrong there.
Found = dict[tuple[str, int], str]


def mypy(*files: Path) -> Found:
    """Check files as `mypy --strict` does in a separate folder, without this project's settings."""
    need((BIN / "mypy").exists(), "mypy (make venv)")
    options = ["--strict", "--config-file=", "--no-error-summary", f"--cache-dir={ROOT / '.mypy_cache' / 'checkers'}"]
    result = subprocess.run(
        [BIN / "mypy", *options, "--output=json", *files],
        cwd=EXAMPLES, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode in (0, 1), result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {(row["file"], row["line"]): row["message"] for row in rows if row["severity"] == "error"}


def pyright(*files: Path) -> Found:
    """Check files as pyright does in strict mode."""
    need((BIN / "basedpyright").exists(), "basedpyright (make venv)")
    options = ["--project", HERE / "pyrightconfig.json", "--pythonpath", sys.executable, "--outputjson"]
    result = subprocess.run([BIN / "basedpyright", *options, *files], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr or result.stdout
    rows = json.loads(result.stdout)["generalDiagnostics"]
    return {(row["file"], row["range"]["start"]["line"] + 1): row["message"] for row in rows}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_accept_plain_and_async_handlers_and_the_examples(checker) -> None:
    assert checker(*RIGHT) == {}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_report_every_marked_mistake_and_no_other_line(checker) -> None:
    marked = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}
    results = {line: message for (_, line), message in checker(WRONG).items()}
    assert len(marked) > 20
    assert (sorted(marked - results.keys()), {line: results[line] for line in results.keys() - marked}) == ([], {})


def test_the_example_plugins_pass_their_own_tests() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        EXAMPLES,
    ]
    result = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{(EXAMPLES / 'test_plugins.py').read_text().count('def test_')} passed" in result.stdout
