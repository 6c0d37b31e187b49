"""Processor events on this machine and on a simulated one."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from pathlib import Path

import pytest

from nri.host import Root, Unsupported, detect
from nri.host.perf import Counters, Event, open_event, probe_events, start_counters
from tests.support.host_trees import TOP, v1, v2, write_files

BOTH = (Event.CYCLES, Event.INSTRUCTIONS)


def counter(*values: int) -> int:
    """The descriptor of a counter that returns these values, one after the other."""
    reading, writing = os.pipe()
    os.write(writing, struct.pack(f"={len(values)}Q", *values))
    os.close(writing)
    return reading


class Kernel:
    """A kernel with counters, which refuses from the one of this number on."""

    def __init__(self, refuses_from: int = 99, number: int = errno.ENOENT) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self.opened: list[int] = []
        self.refuses_from, self.number = refuses_from, number

    def __call__(self, kind: int, config: int, cgroup: int, processor: int) -> int:
        if len(self.opened) >= self.refuses_from:
            raise OSError(self.number, "words")
        assert cgroup == -1 or os.fstat(cgroup)
        self.asked.append((kind, config, processor))
        self.opened.append(counter(10 * (processor + 1), 0))
        return self.opened[-1]


def machine(folder: Path) -> Root:
    return v2(folder, "pod")


def test_events_of_all_processors_are_summed_and_counters_closed(tmp_path: Path) -> None:
    root, kernel = machine(tmp_path), Kernel()
    hierarchies = start_counters(detect(root), root, "pod", BOTH, (0, 1), kernel)
    assert isinstance(hierarchies, Counters)
    assert hierarchies.read() == {Event.CYCLES: 30, Event.INSTRUCTIONS: 30}
    assert sorted(kernel.asked) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    hierarchies.close()
    for row in kernel.opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(row)
    assert hierarchies.read() == {}


def test_on_cgroup_v1_the_perf_event_hierarchy_is_used(tmp_path: Path) -> None:
    root = v1(tmp_path, "pod")
    assert start_counters(detect(root), root, "pod", BOTH, (0,), Kernel()) == Unsupported(
        "the cgroup hierarchy perf_event is not mounted"
    )
    write_files(tmp_path, {f"{TOP}/perf_event/pod/cgroup.procs": "", f"{TOP}/perf_event/cgroup.procs": ""})
    assert isinstance(start_counters(detect(root), root, "pod", BOTH, (0,), Kernel()), Counters)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "the hypervisor, does not count instructions"),
        (errno.EACCES, "counting instructions is not permitted: CAP_PERFMON"),
        (errno.EMFILE, "instructions cannot be counted: words"),
    ],
)
def test_a_refused_event_is_named_and_leaves_no_counter_open(tmp_path: Path, number: int, words: str) -> None:
    root, kernel = machine(tmp_path), Kernel(1, number)
    hierarchies = start_counters(detect(root), root, "pod", BOTH, (0,), kernel)
    assert isinstance(hierarchies, Unsupported) and words in hierarchies.reason
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(kernel.opened[0])
    assert probe_events(BOTH, Kernel(1, number)) == hierarchies
    assert probe_events(BOTH, Kernel()) is None


def test_a_missing_cgroup_is_an_error(tmp_path: Path) -> None:
    root = machine(tmp_path)
    with pytest.raises(FileNotFoundError):
        start_counters(detect(root), root, "gone", BOTH, (0,), Kernel())
    with pytest.raises(ValueError, match="leads out"):
        start_counters(detect(root), root, "../..", BOTH, (0,), Kernel())


def test_this_machines_kernel_accepts_the_call() -> None:
    software, page_faults = 1, 2
    try:
        descriptor = open_event(software, page_faults, -1, -1)
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM, errno.ENOSYS), (
            "the kernel has refused what we asked, not whether we may"
        )
        return
    counters = Counters()
    counters.add(Event.CYCLES, descriptor)
    with mmap.mmap(-1, 1 << 20) as fresh:
        fresh.write(b"x" * (1 << 20))
    assert counters.read()[Event.CYCLES] > 0
    counters.close()
    with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
        open_event(software, page_faults, 1 << 20, 0)


def test_an_unknown_processor_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    probed = probe_events((Event.CYCLES,))
    assert probed is not None and "not available on vax" in probed.reason
