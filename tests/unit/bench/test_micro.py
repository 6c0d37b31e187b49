"""The benchmark without a kernel: its fake connections match the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.commands import unmeasured

ROOT = Path(__file__).parents[3]


def test_both_sides_handle_events_without_a_kernel() -> None:
    env = {**unmeasured(), "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    cases = ["state", "create-4", "unchanged-10", "plugin-state", "plugin-create", "plugin-create-2nd"]
    argv = [sys.executable, "-m", "bench.micro", *cases, "--events", "1"]
    process = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr
