"""`python -m bench engine`: the nine calls of a pod's life on containerd 2.4 and on the engine, in turns.

As root, on a machine where containers run. Both have the same runc, folders in memory and, in turn, no plugin, one and
five in Python and in Go, attached to both at once; then pods with a network of their own, memory, and where the
engine's time goes. Prints tables; with --write they go into bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.engine import tables
from bench.engine.cycle import cycle
from bench.engine.sides import Attached, Side, plugins, sides
from bench.engine.waterfall import measure
from tools.runtimes.machine import MissingError

RESULTS = Path(__file__).parent.parent / "RESULTS.md"
BEGIN, END = "<!-- engine -->", "<!-- end of engine -->"
#: Pods whose memory is measured.
PODS = 10
NONE = Attached("", 0)


class Setting(NamedTuple):
    """What all cycles of one row have in common."""

    attached: Attached
    own_network: bool = False

    def __str__(self) -> str:
        return f"{self.attached}, pod network" if self.own_network else str(self.attached)


SETTINGS = (
    *(Setting(each) for each in (NONE, Attached("Python", 1), Attached("Python", 5), Attached("Go", 1))),
    Setting(Attached("Go", 5)),
    Setting(NONE, own_network=True),
)


class Measured:
    """All cycles of one setting, by side and round."""

    def __init__(self, names: list[str]) -> None:
        self.times: dict[str, list[list[dict[str, float]]]] = {name: [] for name in names}
        self.cpu: dict[str, list[float]] = {name: [] for name in names}

    def round(self, both: list[Side], setting: Setting, cycles: int) -> None:
        """Some cycles on each side, in turns; the first of each warms up what plugins and idle time have cooled."""
        for side in both:
            cycle(side.cri, own_network=setting.own_network)
            self.times[side.name].append([])
            self.cpu[side.name].append(0.0)
        for number in range(cycles):
            for side in both if number % 2 else reversed(both):
                before = side.cpu_ms()
                self.times[side.name][-1].append(cycle(side.cri, own_network=setting.own_network))
                self.cpu[side.name][-1] += (side.cpu_ms() - before) / cycles


def inventory(both: list[Side], rounds: int, cycles: int, *, compiled: bool) -> dict[Setting, Measured]:
    """Every setting, in each round."""
    found = {setting: Measured([side.name for side in both]) for setting in SETTINGS}
    for number in range(rounds):
        for setting, measured in found.items():
            _say(f"round {number + 1} of {rounds}: {setting}")
            first, second = both
            with (
                plugins(first, setting.attached, compiled=compiled),
                plugins(second, setting.attached, compiled=compiled),
            ):
                measured.round(both, setting, cycles)
    return found


def memory(both: list[Side]) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """Memory of each side without pods and with some, after all that came before."""
    found = {}
    for side in both:
        empty = side.memory_kb()
        containers = [container for _, container in side.pods(PODS)]
        found[side.name] = empty, side.memory_kb(containers)
        side.clear()
    return found


def report(options: argparse.Namespace) -> str:
    """Measure everything; the text of all tables."""
    compiled = not options.pure
    with sides(compiled=compiled, own_network=True) as both:
        measured = inventory(both, options.rounds, options.cycles, compiled=compiled)
        sizes = memory(both)
    falls = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, own_network, disk in (("in memory", False, False), ("pod network, records on a disk", True, True)):
            _say(f"waterfall: {title}")
            falls[title] = measure(
                options.cycles * 3, Path(folder), compiled=compiled, own_network=own_network, disk=disk
            )
    about = (
        f"{options.rounds} interleaved rounds of {options.cycles} cycles on each side, {time.strftime('%Y-%m-%d')}, "
        f"{'pure Python' if options.pure else 'the compiled package'}, CPython {platform.python_version()}, "
        f"Linux {platform.release().split('-')[0]}, 2 cores shared with other work."
    )
    by_name = {str(setting): (each.times, each.cpu) for setting, each in measured.items()}
    parts = [about, "### The whole cycle", tables.cycles(by_name)]
    for name in (str(SETTINGS[0]), str(SETTINGS[-1])):
        parts += [f"### Call by call: {name}", tables.calls(by_name[name][0])]
    parts += ["### Memory of the runtime, with conmons, shims and what holds pods", tables.memory(sizes, PODS)]
    for title, shares in falls.items():
        parts += [f"### Where the engine's time goes: {title}", tables.waterfall(shares)]
    return "\n\n".join(parts) + "\n"


def write(text: str) -> None:
    """Put the tables between their marks in RESULTS.md."""
    page = RESULTS.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    RESULTS.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=10, help="in each round, on each side (default 10)")
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
        write(text)
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
