"""The public names and signatures equal a file, so that every change is deliberate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_public_names_and_signatures_equal_the_file() -> None:
    frozen = set((ROOT / "tests/data/public_api.txt").read_text(encoding="utf-8").splitlines())
    # In a separate process, because the fixtures of the test suite wrap a constructor.
    argv = [sys.executable, str(ROOT / "tools/public_api.py")]
    current = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())
    removed, added = sorted(frozen - current), sorted(current - frozen)
    assert (removed, added) == ([], []), (
        "the public interface differs from tests/data/public_api.txt. See docs/concepts/stability.md; if the change is "
        "intended, run: python tools/public_api.py > tests/data/public_api.txt"
    )
