"""Every example of the documentation runs. tests/support/pages.py describes the attributes of a block."""

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

    def run(self, argv: list[str], where: str) -> tuple[str, str]:
        """Run a command in the page's folder; returns its output, and what is wrong if it failed."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        process = subprocess.run(
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
        return (
            process.stdout,
            f"{where} ended with {process.returncode}:\n{process.stdout}" if process.returncode else "",
        )

    def run_python(self, name: str, text: str, where: str) -> str:
        """Save `text` under `name` and run it; returns what is wrong."""
        self.folder.joinpath(name).write_text(text, encoding="utf-8")
        return self.run([sys.executable, "-W", "error", "-c", RUN_FILE, name], where)[1]

    def trouble(self, block: Block, where: str) -> str:
        """Run, compare or save a block, as its fence requires; returns the problem, or ""."""
        if block.language == "python":
            return self._python(block, where)
        if block.language == "console":
            return self._console(block, where)
        self.folder.joinpath(block.action.removeprefix("file=")).write_text(block.text, encoding="utf-8")
        return ""

    def _python(self, block: Block, where: str) -> str:
        action, _, value = block.action.partition("=")
        if action.startswith("no-run"):
            reason = action.removeprefix("no-run").strip(": ")
            return "" if reason else f"{where}: no-run needs a reason: `python no-run: REASON`"
        if action == "file":
            return self.run_python(value, block.text, where)
        if action == "test":
            name = f"test_line_{block.line}.py"
            self.folder.joinpath(name).write_text(block.text, encoding="utf-8")
            return self.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", name], where
            )[1]
        if action not in ("", "continue"):
            return f"{where}: unknown word {action!r}; see tests/support/pages.py"
        self.before = (self.before if action else "") + block.text
        return self.run_python(f"line_{block.line}.py", self.before, where)

    def _console(self, block: Block, where: str) -> str:
        """Run the commands of a console block and compare their output."""
        for command, expected in commands(block.text):
            actual, failed = self.run(["/bin/sh", "-e", "-c", command], f"{where}: $ {command}")
            if failed or not output_matches(expected, actual):
                return failed or f"{where}: $ {command}\n--- the page shows\n{expected}--- it printed\n{actual}"
        return ""


def tried(block: Block) -> bool:
    """Whether the tests do something with this block."""
    is_file = block.action.startswith("file=")
    return is_file or block.language == "python" or (block.language, block.action) == ("console", "run")


PAGES_TO_TRY = [path for path in PAGES if any(map(tried, read_blocks(path)))]


@pytest.mark.parametrize("path", PAGES_TO_TRY, ids=[str(path.relative_to(ROOT)) for path in PAGES_TO_TRY])
def test_every_example_on_the_page_runs(path: Path, tmp_path: Path) -> None:
    page = Page(tmp_path)
    for block in filter(tried, read_blocks(path)):
        trouble = page.trouble(block, f"{path.relative_to(ROOT)}:{block.line}")
        assert not trouble, trouble
