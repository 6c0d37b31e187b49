"""Pairings of runtimes and plugins as processes: nri's and the Go reference's, one protocol of commands for both.

A `Pairing` is one runtime with its plugins, started once and then asked for rounds, so that a driver can interleave
rounds of all pairings: on a shared machine only ratios from the same moments mean something. A side of a pairing is
named ("go", "nri", "pure"), or a `Build` of any revision.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.builds import ROOT, Build
from bench.payload import write
from tests.peers.build import peer
from tests.peers.drivers import LineProcess

#: One side of a pairing: "go", or a build of nri or its name.
Side = str | Build
_OURS = {"nri": Build(ROOT, compiled=True), "pure": Build(ROOT, compiled=False)}


def _argv(side: Side, role: str) -> list[str | Path]:
    """The command of a runtime or plugin: Go's, or nri's from the compiled wheel or from the source tree."""
    if side == "go":
        return [peer("benchrt" if role == "runtime" else "benchpl")]
    build = side if isinstance(side, Build) else _OURS[side]
    return build.argv(role)


#: How often a plugin is started that ends before it takes part.
ATTEMPTS = 4

#: name -> (runtime, plugin); the first is what the others are compared with.
PAIRINGS = {
    "Go - Go": ("go", "go"),
    "nri - nri": ("nri", "nri"),
    "Go - nri": ("go", "nri"),
    "nri - Go": ("nri", "go"),
    "nri - nri, pure Python": ("pure", "pure"),
}
#: The pairing of nri with nri, without anything compiled.
PURE = "nri - nri, pure Python"
#: The cases of recorders: the pairing's side by its name, and the plugins' recorder.
RECORDED: dict[str, tuple[str, tuple[str, ...]]] = {
    f"{build}, {what}": (side, who)
    for side, build in (("nri", "nri - nri"), ("pure", PURE))
    for what, who in (("runtime records", ("runtime",)), ("plugin records", ("plugin",)))
}
#: What the sides are called.
NAMES = {"go": "Go", "nri": "nri", "pure": "pure nri"}


def include_old(build: Build) -> None:
    """Also measure an older build of nri, in every pairing of the compiled package."""
    _OURS["old"] = build
    NAMES["old"] = "old nri"
    for name, sides in tuple(PAIRINGS.items()):
        if "nri" in sides:
            runtime, plugin = ("old" if side == "nri" else side for side in sides)
            PAIRINGS[old_name(name)] = (runtime, plugin)
    for name, (side, who) in tuple(RECORDED.items()):
        if side == "nri":
            RECORDED[old_name(name)] = ("old", who)


def old_name(name: str) -> str:
    """The name of the same pairing or process with the older build."""
    if " - " not in name:
        return f"old {name}"
    sides, comma, who = name.partition(", ")
    return f"{sides}, old{comma}{who}"


@dataclass
class Round:
    """What one round measured: latencies and CPU in microseconds per event, events per second."""

    latencies_us: list[float]
    wall_s: float
    cpu_us: float

    def quantile(self, q: float) -> float:
        """Latency at quantile `q`."""
        ordered = sorted(self.latencies_us)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    @property
    def per_second(self) -> float:
        """Events per second."""
        return len(self.latencies_us) / self.wall_s


@dataclass
class Pairing:
    """A running runtime and its plugins."""

    runtime: LineProcess
    plugins: list[LineProcess] = field(default_factory=list)

    def ask(self, cmd: str, *, timeout_s: float = 300.0, **arguments: Any) -> Any:
        """One command of the runtime."""
        line = self.runtime.ask({"cmd": cmd, **arguments}, timeout_s=timeout_s)
        if not line["ok"]:
            raise RuntimeError(f"{cmd}: {line['error']}\n{self.runtime.tail()}")
        return line["reply"]

    def round(self, kind: str, events: int, callers: int = 1, idle_us: int = 0, *, recorded: bool = True) -> Round:
        """`events` events of one kind; if the runtime has a recorder, with it or without."""
        before = sum(self._plugin_cpu_ns())
        reply = self.ask("round", kind=kind, events=events, callers=callers, idle_us=idle_us, recorded=recorded)
        # Asking a plugin for its usage costs it some CPU itself: twice the same, so it is in both numbers.
        cpu_ns = reply["cpu_ns"] + sum(self._plugin_cpu_ns()) - before
        return Round([ns / 1e3 for ns in reply["ns"]], reply["wall_ns"] / 1e9, cpu_ns / 1e3 / len(reply["ns"]))

    def _plugin_cpu_ns(self) -> list[int]:
        return [_cpu_ns(plugin.pid) for plugin in self.plugins]


def _cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, from the scheduler, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):
            total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
    return total


def rss_kb(pid: int) -> int:
    """Resident memory of a process."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1])
    raise ValueError(f"process {pid} has no memory")


def wakeups(pid: int) -> int:
    """How often the threads of a process have begun to run so far."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):
            rows = Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines()
            total += sum(int(row.split()[1]) for row in rows if row.startswith("voluntary_ctxt_switches"))
    return total


@contextlib.contextmanager
def pairing(
    runtime: Side,
    plugin: Side,
    plugins: int = 1,
    *,
    containers: int = 0,
    delay_ms: int = 0,
    in_turn: bool = False,
    recorder: Collection[str] = (),
    pinned: bool = False,
) -> Iterator[Pairing]:
    """Start a runtime and its plugins and wait until all are synchronized.

    Args:
        recorder: "runtime", "plugin" or both: who keeps every step of every event.
        pinned: the runtime on one core, the plugins on another. Else a busy machine decides whether they share one,
            which is worth a third of a latency: small differences drown in that.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-b-")))
        pod, container = write(folder)
        running = Pairing(stack.enter_context(LineProcess(_argv(runtime, "runtime"))))
        running.ask(
            "start", socket=str(folder / "s"), pod=str(pod), container=str(container), in_turn=in_turn,
            recorder="runtime" in recorder,
        )  # fmt: skip
        if containers:
            running.ask("state", containers=containers)
        env = {**os.environ, "BENCH_DELAY_MS": str(delay_ms)}
        for n in range(plugins):
            env["BENCH_RECORDER"] = str(folder / f"traces-{n}") if "plugin" in recorder else ""
            argv = [*_argv(plugin, "plugin"), "-socket", folder / "s", "-name", f"bench{n}", "-idx", f"{n:02d}"]
            running.plugins.append(_joined(stack, argv, env))
            running.ask("wait", count=n + 1, timeout_ms=120_000)
        if pinned:  # now: a process that has one core when it connects would not poll
            for process, cpu in zip((running.runtime, *running.plugins), _cores(), strict=False):
                _pin(process.pid, cpu)
        yield running


def _cores() -> Iterator[int]:
    """A CPU for the runtime, then one of another core for each of its plugins; nothing on a machine of one core."""
    cpus = sorted(os.sched_getaffinity(0))
    text = Path(f"/sys/devices/system/cpu/cpu{cpus[0]}/topology/thread_siblings_list").read_text()
    bounds = (part.partition("-") for part in text.strip().split(","))
    siblings = {cpu for low, _, high in bounds for cpu in range(int(low), int(high or low) + 1)}
    primary = [cpu for cpu in cpus if cpu not in siblings]
    if primary:
        yield cpus[0]
        yield from itertools.repeat(primary[0])


def _pin(pid: int, cpu: int) -> None:
    """Put all threads of a process on one CPU; threads that they make inherit it."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task), {cpu})


def _joined(stack: contextlib.ExitStack, argv: list[str | Path], env: dict[str, str]) -> LineProcess:
    """A plugin that takes part. Earlier revisions may lose one that joins on a busy machine; then another is started.

    One after the other: of many at once on a busy machine, some run out of their time to register.
    """
    attempt = 1
    while True:
        process = stack.enter_context(LineProcess(argv, env=env))
        try:
            process.wait_event("synchronized", timeout_s=60)
        except AssertionError:
            if process.returncode is None or attempt == ATTEMPTS:
                raise
        else:
            return process
        attempt += 1


def spawn_ms(plugin: Side) -> tuple[float, float]:
    """Milliseconds from starting a plugin's process to configured and to synchronized, under the Go runtime."""
    with tempfile.TemporaryDirectory(prefix="nri-b-") as name:
        folder = Path(name)
        pod, container = write(folder)
        with LineProcess(_argv("go", "runtime")) as process:
            running = Pairing(process)
            running.ask("start", socket=str(folder / "s"), pod=str(pod), container=str(container))
            argv = [*_argv(plugin, "plugin"), "-socket", folder / "s", "-name", "start", "-idx", "00"]
            if plugin != "go":
                argv.append("--no-usage")
            began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            with LineProcess(argv) as started:
                configured = started.wait_event("configured")["ns"]
                synchronized = started.wait_event("synchronized")["ns"]
                if plugin != "go":
                    started.kill(15)
    return (configured - began) / 1e6, (synchronized - began) / 1e6


#: What the generated code of any protobuf schema imports.
PROTOBUF = (
    "from google.protobuf import descriptor, descriptor_pool, runtime_version, symbol_database\n"
    "from google.protobuf.internal import builder\n"
)
BARE = {"interpreter alone": "", "interpreter and protobuf's runtime": PROTOBUF}


def bare_ms(imports: str) -> float:
    """Milliseconds from starting an interpreter until it has imported something and says so."""
    text = imports + 'import time; print(\'{"event": "there", "ns": %d}\' % time.clock_gettime_ns(1), flush=True)'
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    with LineProcess([sys.executable, "-c", text]) as process:
        return float(process.wait_event("there")["ns"] - began) / 1e6
