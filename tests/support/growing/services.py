"""Services of the agent with any number of pods, on a machine of files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from tests.support.growing.big import Case
from tests.support.rubik_world import RubikWorld, pod

#: A pod is dozens of files, so the size is divided.
_PART = 20
_ROUNDS = 20
SERVICES: dict[str, Any] = {
    "preemption": {"resource": ["cpu", "memory"]},
    "quotaTurbo": {"syncInterval": 1000},
    "ioLimit": None,
    "dynMemory": {"policy": "fssr"},
    "cpuevict": {"threshold": 99},
    "memoryevict": {"threshold": 99},
}


def rubik(n: int) -> Callable[[], object]:
    """Rounds of rubik's services, of which a third of the pods is offline."""
    folder = mkdtemp(prefix="nri-linear-")
    pods = [pod(f"p{entry}", offline=not entry % 3, cpu="1", quota_turbo="true") for entry in range(n // _PART)]
    world = RubikWorld(Path(folder), *pods, **SERVICES)
    finalize(world, shutil.rmtree, folder, ignore_errors=True)
    return lambda: world.loop(_ROUNDS)


CASES: dict[str, Case] = {"agent: rounds of rubik's services": rubik}
