"""`python -m bench engine`: the nine calls of a pod's life on containerd 2.4 and on the engine, in turns.

As root, on a machine where containers run. Both have the same runc, folders in memory and, in turn, no plugin, one and
five in Python and in Go, attached to both at once; then pods with their own network or with one process namespace,
many pods at once with their memory, and where the engine's time goes. Prints tables; with --write they go into
bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.report import put
from bench.studies.engine import tables
from bench.studies.engine.cycle import cycle
from bench.studies.engine.sides import Attached, Side, plugins, sides
from bench.studies.engine.waterfall import measure
from tools.runtimes.machine import MissingError

#: What makes the kinds of pods, by what they are called behind the plugins.
KINDS = {"": {}, ", pod network": {"own_network": True}, ", shared process namespace": {"shared_processes": True}}
NONE = Attached("", 0)


class Setting(NamedTuple):
    """What all cycles of one row have in common."""

    attached: Attached
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.attached}{self.kind}"


SETTINGS = (
    *(Setting(NONE, kind) for kind in KINDS),
    *(Setting(Attached(language, count)) for language in ("Python", "Go") for count in (1, 5)),
)


class Measured:
    """All cycles of one setting, by side and round."""

    def __init__(self, names: list[str]) -> None:
        self.times: dict[str, list[list[dict[str, float]]]] = {name: [] for name in names}
        self.cpu: dict[str, list[float]] = {name: [] for name in names}

    def round(self, both: list[Side], setting: Setting, cycles: int) -> None:
        """Some cycles on each side, in turns; the first of each warms up what plugins and idle time have cooled."""
        for side in both:
            cycle(side.cri, **KINDS[setting.kind])
            self.times[side.name].append([])
            self.cpu[side.name].append(0.0)
        for number in range(cycles):
            for side in both if number % 2 else reversed(both):
                before = side.cpu_ms()
                self.times[side.name][-1].append(cycle(side.cri, **KINDS[setting.kind]))
                self.cpu[side.name][-1] += (side.cpu_ms() - before) / cycles


def inventory(both: list[Side], rounds: int, cycles: int, *, compiled: bool) -> dict[Setting, Measured]:
    """Every setting, in each round."""
    measured_by_setting = {setting: Measured([side.name for side in both]) for setting in SETTINGS}
    for number in range(rounds):
        for setting, measured in measured_by_setting.items():
            _say(f"round {number + 1} of {rounds}: {setting}")
            first, second = both
            with (
                plugins(first, setting.attached, compiled=compiled),
                plugins(second, setting.attached, compiled=compiled),
            ):
                measured.round(both, setting, cycles)
    return measured_by_setting


class Crowd(NamedTuple):
    """Many pods of one side: kilobytes by program without them and with them, and seconds of each round."""

    empty: dict[str, int]
    full: dict[str, int]
    created_s: float
    stopped_s: float


def crowd(side: Side, count: int) -> Crowd:
    """Make this many pods with a container each, look at the memory, stop them all, and remove them; one by one."""
    empty, began = side.memory_kb(), time.monotonic()
    pods = side.pods(count)
    created = time.monotonic() - began
    full, began = side.memory_kb(pods.values()), time.monotonic()
    for pod in pods:
        side.cri.stop_pod(pod)
    stopped = time.monotonic() - began
    side.cri.remove_all()
    return Crowd(empty, full, created, stopped)


def report(options: argparse.Namespace) -> str:
    """Measure everything; the text of all tables."""
    compiled = not options.pure
    with sides(compiled=compiled, own_network=True) as both:
        measured = inventory(both, options.rounds, options.cycles, compiled=compiled)
        crowds: dict[str, list[Crowd]] = {side.name: [] for side in both}
        for number in range(options.crowds):
            for side in both if number % 2 else reversed(both):
                _say(f"{options.pods} pods, round {number + 1} of {options.crowds}: {side.name}")
                crowds[side.name].append(crowd(side, options.pods))
    falls = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, disk in (("", False), (", pod network", True), (", shared process namespace", False)):
            title = f"{'records on a disk' if disk else 'in memory'}{kind}"
            _say(f"waterfall: {title}")
            falls[title] = measure(options.cycles * 3, Path(folder), compiled=compiled, disk=disk, **KINDS[kind])
    about = (
        f"{options.rounds} interleaved rounds of {options.cycles} cycles on each side, {time.strftime('%Y-%m-%d')}, "
        f"{'pure Python' if options.pure else 'the compiled package'}, CPython {platform.python_version()}, "
        f"Linux {platform.release().split('-')[0]}, 2 cores shared with other work."
    )
    by_name = {str(setting): (values.times, values.cpu) for setting, values in measured.items()}
    parts = [about, "### The whole cycle", tables.cycles(by_name)]
    for name in (str(Setting(NONE, kind)) for kind in KINDS):
        parts += [f"### Call by call: {name}", tables.calls(by_name[name][0])]
    parts += [f"### {options.pods} pods at once, one client", tables.crowds(crowds)]
    sizes = {name: (rounds[-1].empty, rounds[-1].full) for name, rounds in crowds.items()}
    parts += ["### Memory of the runtime, with conmons, shims and what holds pods", tables.memory(sizes, options.pods)]
    for title, shares in falls.items():
        parts += [f"### Where the engine's time goes: {title}", tables.waterfall(shares)]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=10, help="in each round, on each side (default 10)")
    parser.add_argument("--pods", type=int, default=100, help="at once (default 100)")
    parser.add_argument("--crowds", type=int, default=3, help="rounds of so many pods at once (default 3)")
    parser.add_argument("--pure", action="store_true", help="the engine and plugins without the compiled package")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    try:
        text = report(options)
    except MissingError as error:
        _say(f"bench: error: {error}")
        return 2
    print(text)
    if options.write:
        put("engine", text)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
