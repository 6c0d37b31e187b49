"""Every example of the documentation runs. How a block says what is done with it: tests/support/pages.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import Block, commands, output_matches, read_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [page for places in ("*.md", "docs/**/*.md", "examples/**/*.md", "src/**/*.md") for page in ROOT.glob(places)]
)
# A block is not `__main__`, so that a plugin's last lines do not connect to a runtime.
RUN_FILE = "import runpy, sys; sys.path.insert(0, '.'); runpy.run_path(sys.argv[1], run_name='example')"


class Page:
    """The blocks of one page, tried in order in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = ""

    def run(self, argv: list[str], where: str) -> str:
        """Run a command in the page's folder and return what it printed; fails the test if the command failed."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def run_python(self, name: str, text: str, where: str) -> None:
        """Save `text` under `name` and run it."""
        self.folder.joinpath(name).write_text(text, encoding="utf-8")
        self.run([sys.executable, "-W", "error", "-c", RUN_FILE, name], where)

    def try_python(self, block: Block, where: str) -> None:
        """Do with a python block what its fence says."""
        action, _, value = block.action.partition("=")
        if action == "continue":
            self.before += block.text
            self.run_python(f"line_{block.line}.py", self.before, where)
        elif action == "file":
            self.run_python(value, block.text, where)
        elif action == "test":
            name = f"test_line_{block.line}.py"
            self.folder.joinpath(name).write_text(block.text, encoding="utf-8")
            self.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", name], where)
        elif action.startswith("no-run"):
            assert action.removeprefix("no-run").strip(": "), f"{where}: no-run wants a reason: `python no-run: REASON`"
        else:
            assert not action, f"{where}: unknown word {action!r}; see tests/support/pages.py"
            self.before = block.text
            self.run_python(f"line_{block.line}.py", block.text, where)

    def try_console(self, block: Block, where: str) -> None:
        """Run the commands of a console block and compare their output."""
        for command, expected in commands(block.text):
            actual = self.run(["/bin/sh", "-e", "-c", command], f"{where}: $ {command}")
            assert output_matches(expected, actual), (
                f"{where}: $ {command}\n--- the page says\n{expected}--- the command says\n{actual}"
            )


def tried(block: Block) -> bool:
    """Whether the tests do something with this block."""
    kept = block.action.startswith("file=")
    return kept or block.language == "python" or (block.language, block.action) == ("console", "run")


PAGES_TO_TRY = [path for path in PAGES if any(map(tried, read_blocks(path)))]


@pytest.mark.parametrize("path", PAGES_TO_TRY, ids=[str(path.relative_to(ROOT)) for path in PAGES_TO_TRY])
def test_every_example_on_the_page_runs(path: Path, tmp_path: Path) -> None:
    page = Page(tmp_path)
    for block in filter(tried, read_blocks(path)):
        where = f"{path.relative_to(ROOT)}:{block.line}"
        if block.language == "python":
            page.try_python(block, where)
        elif block.language != "console":
            tmp_path.joinpath(block.action.removeprefix("file=")).write_text(block.text, encoding="utf-8")
        else:
            page.try_console(block, where)
