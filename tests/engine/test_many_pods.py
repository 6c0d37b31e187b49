"""Many pods up and down: what the engine takes for each, and what it keeps of them when they are gone.

The engine is a process of its own, and pods come one after the other in four batches, all of them up at the end, down
again, and up a second time. Memory, descriptors and threads after the second descent are those after the first; time is
printed, batch by batch. 200 pods with `NRI_PODS=200`; 20 without.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.needs import need, need_root, need_tool
from tools.runtimes.cri import Pod
from tools.runtimes.engine import Engine
from tools.runtimes.machine import PATIENCE

PODS = int(os.environ.get("NRI_PODS", "20"))
BATCHES = 4
#: What memory may grow by from the first descent to the second, for each pod, in KiB: less than any record of one.
GROWTH_KB = 4
#: What an allocator keeps for later, in KiB, whatever the number of pods.
SLACK_KB = 2048


@pytest.fixture
def engine() -> Iterator[Engine]:
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    need(Path("/usr/lib/cni/bridge").exists(), "the CNI plugins (containernetworking-plugins)")
    engine_ = Engine(say=lambda _: None)
    try:
        engine_.enable_pod_network()
        engine_.start()
        yield engine_
    finally:
        engine_.close()


class Use(NamedTuple):
    """What the engine's process has."""

    memory_kb: int
    descriptors: int
    threads: int


def use(engine: Engine) -> Use:
    """The engine's own memory (not shared with others), open files and threads, now."""
    rows = Path(f"/proc/{engine.pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Clean:", "Private_Dirty:")))
    return Use(private, len(os.listdir(f"/proc/{engine.pid}/fd")), len(os.listdir(f"/proc/{engine.pid}/task")))


def settled(engine: Engine, holds: Callable[[Use], bool]) -> Use:
    """What the process has when something holds, or after a while: a thread ends a moment after what it was for."""
    deadline = time.monotonic() + 20 * PATIENCE
    while not holds(now := use(engine)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def up_and_down(engine: Engine) -> list[str]:
    """All pods up, in batches, and down again; a line for each batch."""
    lines, pods = [], list[Pod]()
    for batch in range(BATCHES):
        began = time.monotonic()
        for _ in range(PODS // BATCHES):
            pods.append(engine.cri.run_pod(f"many{len(pods)}", own_network=len(pods) % 2 == 0))
            engine.cri.run(pods[-1], "main")
        each_ms = (time.monotonic() - began) * 1000 / (PODS // BATCHES)
        lines.append(f"up, batch {batch + 1}: {each_ms:.0f} ms a pod; {len(pods)} pods, {use(engine)}")
    for batch in range(BATCHES):
        began = time.monotonic()
        for _ in range(PODS // BATCHES):
            engine.cri.remove_pod(pods.pop().id)
        each_ms = (time.monotonic() - began) * 1000 / (PODS // BATCHES)
        lines.append(f"down, batch {batch + 1}: {each_ms:.0f} ms a pod; {len(pods)} pods, {use(engine)}")
    return lines


@pytest.mark.timeout(max(300, PODS * 5))
def test_pods_that_are_gone_take_neither_memory_nor_descriptors_nor_threads(engine: Engine) -> None:
    empty = use(engine)
    lines = [f"no pods: {empty}", *up_and_down(engine)]
    first = settled(engine, lambda now: now.descriptors <= empty.descriptors + 8)
    lines += up_and_down(engine)
    second = settled(engine, lambda now: now.descriptors <= first.descriptors + 2 and now.threads <= first.threads + 2)
    print("\n" + "\n".join(lines))
    assert second.memory_kb - first.memory_kb < SLACK_KB + GROWTH_KB * PODS, f"{first} and then {second}"
    assert second.descriptors <= first.descriptors + 2, f"{first} and then {second}"
    assert second.threads <= first.threads + 2, f"{first} and then {second}"
    assert first.descriptors <= empty.descriptors + 8, f"{empty} and then {first}"
