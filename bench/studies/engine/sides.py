"""The two compared runtimes, private, each with all its processes in one cgroup; plugins that connect and leave.

Both use the same runc, the same kind of folders (in memory) and the same plugins. The usage of a runtime is that of
its cgroup with everything below it (daemon, conmons or shims, OCI runtime, containers), without plugins.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.builds import ROOT, Build
from bench.studies.engine.cycle import TimedCri
from tests.peers.build import peer
from tests.peers.drivers import LineProcess
from tools.runtimes.config import DaemonSettings
from tools.runtimes.containerd import Containerd
from tools.runtimes.engine import Engine
from tools.runtimes.releases import install

#: What they are called in tables; ratios are to the first.
CONTAINERD, ENGINE = "containerd 2.4", "nri engine"
_CGROUPS = Path("/sys/fs/cgroup")
_V2 = (_CGROUPS / "cgroup.controllers").exists()
#: How long plugins have to come, or to be gone again, in seconds.
_PATIENCE_S = 20.0


class Attached(NamedTuple):
    """Plugins in one language. `number` 0: none."""

    language: str
    number: int

    def __str__(self) -> str:
        if not self.number:
            return "no plugin"
        return f"{self.number} {self.language} plugin{'s' if self.number > 1 else ''}"


class Side:
    """One runtime that runs, and its client `cri`."""

    def __init__(self, name: str, runtime: Engine | Containerd) -> None:
        self.name, self.runtime = name, runtime
        self.cri = TimedCri(runtime.cri_socket, runtime.run_dir.name)
        controllers = ("",) if _V2 else ("cpuacct",)
        self._group = _CGROUPS / controllers[0] / runtime.run_dir.name
        daemon = self._group / "daemon"
        daemon.mkdir(parents=True, exist_ok=True)
        for task in os.listdir(f"/proc/{runtime.pid}/task"):
            (daemon / ("cgroup.procs" if _V2 else "tasks")).write_text(task if not _V2 else str(runtime.pid))

    def cpu_ms(self) -> float:
        """Processor time of everything so far, in milliseconds."""
        if _V2:
            rows = dict(line.split() for line in (self._group / "cpu.stat").read_text().splitlines())
            return int(rows["usage_usec"]) / 1e3
        return int((self._group / "cpuacct.usage").read_text()) / 1e6

    def memory_kb(self, without: Collection[str] = ()) -> dict[str, int]:
        """Memory by program, shared pages by their share (PSS), the processes of these containers apart."""
        sizes: dict[str, int] = {}
        for folder, _, _ in os.walk(self._group):
            if Path(folder).name in without:
                continue
            for pid in Path(folder, "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    sizes[name] = sizes.get(name, 0) + _pss_kb(int(pid))
        return sizes

    def pods(self, count: int) -> dict[str, str]:
        """Make this many pods with a container each; the container's id by the pod's."""
        pods = (self.cri.run_pod(f"m{number}") for number in range(count))
        return {pod.id: self.cri.run(pod, "main") for pod in pods}


def _pss_kb(pid: int) -> int:
    for row in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if row.startswith("Pss:"):
            return int(row.split()[1])
    return 0


@contextlib.contextmanager
def sides(*, compiled: bool = True, own_network: bool = False) -> Iterator[list[Side]]:
    """Both, running; containerd is the first."""
    quiet = DaemonSettings(log_level="warn")
    path = Build(ROOT, compiled=compiled).path()
    with ExitStack() as stack:
        containerd = Containerd(install("2.4", _say), quiet, _say)
        stack.callback(containerd.close)
        engine = Engine(_say)
        stack.callback(engine.close)
        if own_network:
            containerd.enable_pod_network()
            engine.enable_pod_network()
        containerd.start()
        with _environment("PYTHONPATH", path):
            engine.start()
        compared = [Side(CONTAINERD, containerd), Side(ENGINE, engine)]
        for side in compared:
            stack.callback(side.cri.close)
        yield compared


@contextlib.contextmanager
def traced(file: Path, *, compiled: bool, own_network: bool, disk: bool) -> Iterator[Side]:
    """An engine alone that writes spans (`traced.py`) into this file when it stops; `disk`: not in memory."""
    program = [sys.executable, str(ROOT / "bench/studies/engine/traced.py")]
    with ExitStack() as stack:
        engine = Engine(_say, program=program, in_memory=not disk)
        stack.callback(engine.close)
        if own_network:
            engine.enable_pod_network()
        stack.enter_context(_environment("PYTHONPATH", Build(ROOT, compiled=compiled).path()))
        stack.enter_context(_environment("BENCH_SPANS", str(file)))
        engine.start()
        side = Side(ENGINE, engine)
        stack.callback(side.cri.close)
        yield side


@contextlib.contextmanager
def plugins(side: Side, attached: Attached, *, compiled: bool = True) -> Iterator[None]:
    """Plugins that take part at a side, for as long as the block lasts."""
    path = Build(ROOT, compiled=compiled).path()
    with ExitStack() as stack:
        running = []
        for number in range(attached.number):
            argv: list[str | Path]
            index, name = f"{10 + number}", f"b{number}"
            if attached.language == "Go":
                argv = [peer("fieldplugin"), "-kind", "logger", "-name", name, "-idx", index]
                argv += ["-socket", side.runtime.nri_socket]
            else:
                argv = ["/usr/bin/env", f"PYTHONPATH={path}", sys.executable, ROOT / "bench/studies/engine/plugin.py"]
                argv += ["--name", name, "--idx", index, "--socket", side.runtime.nri_socket]
            running.append(stack.enter_context(LineProcess(argv)))
        for process in running:
            process.wait_event("started", timeout_s=_PATIENCE_S)
        time.sleep(0.05)  # the last one's own synchronization comes to its end
        yield


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
