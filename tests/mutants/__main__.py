"""Make each mistake of the table in a copy of the tree, and see that its tests notice.

    python -m tests.mutants             all of them
    python -m tests.mutants engine cni  those whose file has one of these words in its path

Exit code 1 if one survives, or if the tests fail without any mistake. The tree itself is never touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.table import MUTANTS, Mutant, mutated

ROOT = Path(__file__).resolve().parents[2]
#: So long may the tests of one take, in seconds; a mistake that makes them hang is noticed, too.
TIMEOUT_S = 300


def copy_tree(to: Path) -> None:
    """Copy what git knows of the tree, as it is on disk."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)


def run_tests(tree: Path, tests: list[str]) -> tuple[int, str]:
    """Pytest's exit code, and the test that failed or its last words; 1 if it takes too long."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}/src", "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(f"tests/{path}" for path in tests)]
    try:
        process = subprocess.run(
            argv, cwd=tree, env=environment, check=False, capture_output=True, text=True, timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, "it took too long"
    lines = process.stdout.strip().splitlines() or [""]
    return process.returncode, next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), lines[-1])


def noticed(tree: Path, mutant: Mutant) -> tuple[bool, str]:
    """Whether the tests fail with a mistake, and their last words."""
    path = tree / "src/nri" / mutant.file
    source = path.read_text(encoding="utf-8")
    path.write_text(mutated(mutant, source), encoding="utf-8")
    try:
        code, last = run_tests(tree, [mutant.tests])
    finally:
        path.write_text(source, encoding="utf-8")
    return code in (1, 2) or code < 0, last  # a crash is noticed, too


def main(words: list[str]) -> int:
    """Try the mutants whose file has one of the words; all without any."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.file for word in words)]
    if not chosen:
        print(f"mutants: error: no file of the table has {' or '.join(words)} in its path", file=sys.stderr)
        return 2
    began, survived = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="nri-m-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        code, last = run_tests(tree, sorted({mutant.tests for mutant in chosen}))
        if code:
            print(f"mutants: error: without any mistake the tests fail: {last}", file=sys.stderr)
            return 1
        for mutant in chosen:
            killed, last = noticed(tree, mutant)
            survived += not killed
            word = "killed  " if killed else "SURVIVED"
            print(f"{word}  {mutant.file}: {mutant.text}  ->  {mutant.instead or '(nothing)'}  [{last}]", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed, in {time.monotonic() - began:.0f} s")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
