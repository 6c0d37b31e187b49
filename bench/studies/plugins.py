"""`python -m bench plugins [--write]`: start and memory of each bundled plugin, and of all of them in one process.

Each plugin is a process as an image or a unit starts it (`python -m nri.plugins NAME`), connected to a runtime of this
package in this process, without a pod in it; then all of them run side by side; then all share one process (`nri run`).
Start is from spawn until the runtime counts the plugin as active, and the processor time that it took; memory is read
from /proc a moment after that. Rounds are interleaved. With --write the table goes into bench/RESULTS.md.

PSS counts a page that several processes share in parts: it is what a plugin adds to a node. Plugins in images of their
own share less than here.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from bench.report import spread, table
from nri.testing import FakeRuntime

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
BEGIN, END = "<!-- plugins -->", "<!-- end of plugins -->"
#: How long a started plugin is left alone before its memory is read, in seconds.
QUIET_S = 0.5
PATIENCE_S = 60.0
#: Plugins that are measured with flags, so that nothing of this machine is touched.
FLAGS = {"hook-injector": ["--hooks-dirs", "{folder}/hooks.d"]}
#: A plugin that connects more than once: its indices.
INDICES = {"differ": ("00", "99")}


class Sample(NamedTuple):
    """One started process: milliseconds until all in it were active, of which on a processor, and KiB of memory."""

    start_ms: float
    cpu_ms: float
    rss_kb: float
    pss_kb: float
    threads: float


def names() -> list[str]:
    """The bundled plugins, by name."""
    return sorted(entry.name for entry in entry_points(group="nri.plugins") if entry.value.startswith("nri.plugins."))


def labels(name: str, index: str) -> list[str]:
    """What a plugin registers as."""
    return [f"{number}-{name}" for number in INDICES.get(name, (index,))]


def words(name: str, folder: str) -> list[str]:
    """The flags of a plugin's own that it is measured with."""
    return [word.format(folder=folder) for word in FLAGS.get(name, [])]


def memory(pid: int) -> tuple[float, float]:
    """Resident and proportional set size of a process, in KiB."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return float(rows["Rss"].split()[0]), float(rows["Pss"].split()[0])


def cpu_ms(pid: int) -> float:
    """Processor time that the threads of a process have used, in milliseconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int(Path(thread, "schedstat").read_text().split()[0]) for thread in threads) / 1e6


class Started:
    """One process of plugins, started and active.

    Args:
        command: the program and its arguments.
        wanted: ``NN-name`` of what is to become active.
        runtime: where it connects.
    """

    def __init__(self, command: Sequence[str], plugins: Sequence[str], runtime: FakeRuntime) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRI_")}
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--socket-path", runtime.socket_path, "--log-level", "error"], env=environment
        )
        active = runtime.adaptation.ready(list(plugins), PATIENCE_S)
        self.start_ms = (time.perf_counter() - began) * 1e3
        self.cpu_ms = cpu_ms(self.process.pid)
        if not active:
            self.stop()
            raise RuntimeError(f"{' '.join(command)}: {', '.join(plugins)} did not become active")

    def sample(self) -> Sample:
        """Read its memory, a moment after its start."""
        rss, pss = memory(self.process.pid)
        threads = len(os.listdir(f"/proc/{self.process.pid}/task"))
        return Sample(self.start_ms, self.cpu_ms, rss, pss, threads)

    def stop(self) -> None:
        """End it, and wait for that."""
        self.process.terminate()
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def runtime_in(folder: str) -> Iterator[FakeRuntime]:
    """A runtime that listens in a folder."""
    with FakeRuntime(socket_path=f"{folder}/nri.sock") as runtime:
        yield runtime


def alone(name: str, folder: str) -> Sample:
    """One plugin, alone in its process."""
    with runtime_in(folder) as runtime:
        flags = [] if name in INDICES else ["--idx", "50"]
        command = [sys.executable, "-m", "nri.plugins", name, *flags, *words(name, folder)]
        started = Started(command, labels(name, "50"), runtime)
        try:
            time.sleep(QUIET_S)
            return started.sample()
        finally:
            started.stop()


def side_by_side(folder: str) -> Sample:
    """All plugins, each in its own process: their sum, and the start of one after the other."""
    with runtime_in(folder) as runtime, contextlib.ExitStack() as stack:
        running = []
        for place, name in enumerate(names()):
            index = f"{10 + place}"
            flags = [] if name in INDICES else ["--idx", index]
            command = [sys.executable, "-m", "nri.plugins", name, *flags, *words(name, folder)]
            running.append(Started(command, labels(name, index), runtime))
            stack.callback(running[-1].stop)
        time.sleep(QUIET_S)
        samples = [program.sample() for program in running]
        return Sample(*(sum(column) for column in zip(*samples, strict=True)))


def together(folder: str) -> Sample:
    """All plugins in one process."""
    with runtime_in(folder) as runtime:
        command, plugin_names = [sys.executable, "-m", "nri", "run"], []
        for place, name in enumerate(names()):
            index = f"{10 + place}"
            command += [f"{index}-{name}", *words(name, folder)]
            plugin_names += labels(name, index)
        started = Started(command, plugin_names, runtime)
        try:
            time.sleep(QUIET_S)
            return started.sample()
        finally:
            started.stop()


def measure(rounds: int) -> dict[str, list[Sample]]:
    """All rounds, interleaved."""
    samples: dict[str, list[Sample]] = {}
    apart, one = "all, each in its own process", "all in one process"
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="nri-bench-") as folder:
            Path(folder, "hooks.d").mkdir()
            for name in names():
                samples.setdefault(name, []).append(alone(name, folder))
            samples.setdefault(apart, []).append(side_by_side(folder))
            samples.setdefault(one, []).append(together(folder))
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
    return samples


def written(samples_by_name: Mapping[str, Sequence[Sample]]) -> str:
    """The table."""
    head = ["plugin", "start, ms", "processor, ms", "RSS, MiB", "PSS, MiB", "threads"]
    rows = []
    for name, samples in samples_by_name.items():
        start, cpu, rss, pss, threads = (list(column) for column in zip(*samples, strict=True))
        mib = [[value / 1024 for value in values] for values in (rss, pss)]
        cells = [_cell(start, 0), _cell(cpu, 0), _cell(mib[0], 1), _cell(mib[1], 1)]
        rows.append([name, *cells, f"{statistics.median(threads):.0f}"])
    rounds = len(next(iter(samples_by_name.values())))
    kernel = platform.release().partition("-")[0]
    about = (
        f"{rounds} interleaved rounds, {time.strftime('%Y-%m-%d')}, CPython {platform.python_version()}, "
        f"Linux {kernel}, {platform.machine()}, {os.cpu_count()} cores shared with other work. "
        "Medians; in brackets the middle half."
    )
    return f"{about}\n\n{table(head, rows)}"


def _cell(values: list[float], digits: int) -> str:
    middle, low, high = spread(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def write(text: str) -> None:
    """Put the table into RESULTS.md."""
    before, _, tail = RESULTS.read_text().partition(BEGIN)
    _, _, after = tail.partition(END)
    RESULTS.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with --write into RESULTS.md."""
    parser = argparse.ArgumentParser(
        prog="python -m bench plugins", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    logging.disable()  # the runtime would log each end
    text = written(measure(options.rounds))
    if options.write:
        write(text)
    else:
        sys.stdout.write(f"{text}\n")
    return 0
