"""`python -m bench pinned [--write]`: the throughput of a program next to others, unpinned and pinned by each policy.

A container of one CPU that copies memory, within its second cache or far beyond, and four others with a quarter of a
CPU each, as many as there is CPU for. Each is a process in its own cgroup with the weight of its request; where
the policies would put it on this machine is decided on paper, and set in `cpuset`. No runtime is asked. With --write
the table goes into bench/RESULTS.md, and the plot onto the page about placement. It needs root, two CPUs or more, and a
machine that nobody else uses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from bench.report import put, table
from bench.studies.rubik_pictures import OURS, PLAIN, bars
from nri.api import cpuset
from nri.host import Outcome, Root, Write, Writer, detect
from nri.kube.quantity import cpu_shares
from nri.placement.choices import Choices
from nri.placement.containers import Pins
from nri.placement.machine import Machine
from nri.placement.recorded.machines import make_policy
from tests.real.placing import ALL, CONFIGS, CPUS, TOPOLOGY
from tests.support.placement import container

PLOT = Path(__file__).parents[2] / "docs/_static/placement/helps.svg"
UNPINNED: Final = "unpinned"
#: Bytes that a program copies to and fro.
PROGRAMS: Final = {"bound by the cache": 768 << 10, "bound by memory": 128 << 20}
OTHERS: Final = [f"log-{number}" for number in range(2 * len(CPUS))]
#: Copies until the time is up, and prints the number of bytes; starts on a line of stdin.
COPY: Final = """
import sys, time
size, seconds = int(sys.argv[1]), float(sys.argv[2])
one, other = memoryview(bytearray(size)), memoryview(bytearray(size))
turns, done = max(1, (8 << 20) // size), 0
sys.stdin.readline()
end = time.monotonic() + seconds
while time.monotonic() < end:
    for _ in range(turns):
        other[:] = one
    done += turns
print(done * size)
"""


def decided() -> dict[str, Mapping[str, Pins]]:
    """Where each policy puts the containers on this machine."""
    pins_by_arm: dict[str, Mapping[str, Pins]] = {UNPINNED: {}}
    for name, config in CONFIGS.items():
        policy = make_policy(name, Machine.of(TOPOLOGY), config, Choices.DEFAULT)
        policy.create(container("own", 1000))
        for load in OTHERS:
            policy.create(container(load, _others_m(), qos="Burstable", namespace="kube-system"))
        pins_by_arm[name] = policy.pins
    return pins_by_arm


def _others_m() -> int:
    return 1000 * (len(CPUS) - 1) // len(OTHERS)


@contextlib.contextmanager
def cgroups(pins: Mapping[str, Pins]) -> Iterator[dict[str, list[Path]]]:
    """A cgroup for each container, with its weight and its pins: where its process is written to."""
    hierarchies, top = detect(Root("/")), f"nri-pinned-{os.getpid()}"
    writer, folders_by_name, before = Writer(hierarchies), dict[str, list[Path]](), dict[Path, str]()
    requests = {"": 0, "own": 1000, **dict.fromkeys(OTHERS, _others_m())}
    try:
        for name, cpu_m in requests.items():
            path = f"{top}/{name}".rstrip("/")
            folders = {str(hierarchies.folder(controller, path)) for controller in ("cpu", "cpuset")}
            for folder in folders:
                Path(folder).mkdir()
                folders_by_name.setdefault(name, []).append(Path(folder, "cgroup.procs"))
                control = Path(folder).parent / "cgroup.subtree_control"
                if control.exists():
                    before.setdefault(control, control.read_text())
                    control.write_text("+cpu +cpuset")
            pinned_to = pins.get(name, Pins())
            writes = [Write(path, "cpuset.cpus", cpuset.parse(pinned_to.cpus or "") or ALL[0]),
                      Write(path, "cpuset.mems", cpuset.parse(pinned_to.mems or "") or ALL[1])]  # fmt: skip
            if cpu_m:
                writes.append(Write(path, "cpu.shares", cpu_shares(Fraction(cpu_m, 1000))))
            for result in writer.write_all(writes):
                if result.outcome not in (Outcome.APPLIED, Outcome.UNCHANGED):
                    raise OSError(f"{path}: {result}")
        yield folders_by_name
    finally:
        for files in reversed(folders_by_name.values()):
            for file in files:
                file.parent.rmdir()
        for control, names in before.items():
            if control.exists():  # the top's
                control.write_text(" ".join({"-cpu", "-cpuset"} - {f"-{name}" for name in names.split()}))


@contextlib.contextmanager
def copying(files: Sequence[Path], size: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A program in a cgroup, which waits for a line."""
    words = [sys.executable, "-c", COPY, str(size), str(seconds)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            for file in files:
                file.write_text(str(program.pid))
            yield program
        finally:
            program.kill()


def rate(size: int, pins: Mapping[str, Pins], seconds: float) -> float:
    """The GiB per second that the program copies next to the others."""
    with contextlib.ExitStack() as stack:
        folders = stack.enter_context(cgroups(pins))
        noise = [stack.enter_context(copying(folders[name], 128 << 20, 10 * seconds)) for name in OTHERS]
        copier = stack.enter_context(copying(folders["own"], size, seconds))
        for program in (*noise, copier):
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
        output, _ = copier.communicate()
    return int(output) / seconds / (1 << 30)


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench pinned", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each arm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shared", action="store_true", help="say in the report that the machine was not quiet")
    parser.add_argument("--write", action="store_true", help="into bench/RESULTS.md and the page about placement")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # programs and cgroups go
    arms, rates = decided(), dict[tuple[str, str], list[float]]()
    for _ in range(chosen.rounds):
        for program, size in PROGRAMS.items():
            for arm, pins in arms.items():
                rates.setdefault((program, arm), []).append(rate(size, pins, chosen.seconds))
    rows, drawn = [], []
    for program in PROGRAMS:
        plain = statistics.median(rates[program, UNPINNED])
        for arm in arms:
            values = sorted(rates[program, arm])
            middle = statistics.median(values)
            where = arms[arm].get("own", Pins()).cpus or cpuset.to_text(CPUS)
            rows.append(
                [program, arm, where, f"{middle:.2f}", f"{values[0]:.2f}-{values[-1]:.2f}", f"{middle / plain:.2f}"]
            )
            text = f"{middle:.1f} GiB/s, {middle / plain:.2f}"
            drawn.append(
                (
                    f"{program.removeprefix('bound by ')}, {arm}",
                    middle / plain,
                    text,
                    PLAIN if arm == UNPINNED else OURS,
                )
            )
    about = (
        f"{chosen.rounds} rounds of {chosen.seconds:g} s, {time.strftime('%Y-%m-%d')}, {platform.machine()}, "
        f"{len(CPUS)} CPUs and {len(ALL[1])} memory node(s), Linux {platform.release()}, {len(OTHERS)} other programs."
        f"{' The machine was shared with other work, so these figures are rough.' if chosen.shared else ''}"
    )
    head = ["program", "arm", "its CPUs", "GiB/s", "least and most", "as a ratio to unpinned"]
    text = f"{about}\n\n{table(head, rows)}"
    print(text)
    if chosen.write:
        put("pinned", text)
        PLOT.write_text(bars("Copied by a container of one CPU, next to others", drawn))
    return 0
