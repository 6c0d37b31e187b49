"""`python -m bench placement --original NAME=PROGRAM`: topology-aware or balloons compared with nri-plugins in Go.

Both are programs with a runtime of this package, each on its own socket, with the same configuration, machine,
pods and containers, in turns. With this many containers present one more is created, updated and stopped, repeatedly;
what is counted is the time until the runtime has the answer. The plugins start anew in each round, and that is from
spawn until they are configured. Processor time and memory are those of the plugin's process.

The program is built from source by whoever measures: `go build ./cmd/plugins/topology-aware` in nri-plugins.
"""

from __future__ import annotations

import logging
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.report import ratios, table
from bench.studies.plugins import PATIENCE_S, cpu_ms, memory
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod

DATA = Path(__file__).parents[2] / "tests/conformance/data/placement/sysfs/pkg_cpuallocator_testdata_sysfs.tar.bz2"
#: The machine: 80 CPUs in four memory nodes.
MACHINE = "sysfs/2-socket-4-node-40-core"
#: Files that the snapshot does not have, and without which the originals do not start.
NEEDED = ("proc/interrupts", *(f"sys/devices/system/node/has_{what}" for what in ("cpu", "memory", "normal_memory")))
COUNTS = (0, 10, 100)
LIVES = 30
LABEL = "90-measured"
CONFIGS: Mapping[str, dict[str, Any]] = {
    "topology-aware": {
        "kind": "TopologyAwarePolicy",
        "spec": {"pinCPU": True, "pinMemory": True, "reservedResources": {"cpu": "cpuset:0"}},
    },
    "balloons": {
        "kind": "BalloonsPolicy",
        "spec": {
            "reservedResources": {"cpu": "cpuset:0"},
            "balloonTypes": [
                {"name": "own", "preferNewBalloons": True,
                 "matchExpressions": [{"key": "name", "operator": "Matches", "values": ["own-*"]}]},
                {"name": "rest", "namespaces": ["*"], "maxBalloons": 2},
            ],
        },
    },
}  # fmt: skip
EVENTS = ("CreateContainer", "UpdateContainer", "StopContainer")
LIFE = "life of one, CPU"


def pod_of(number: int, qos: str) -> m.PodSandbox:
    """A pod of a class, as a kubelet would have it."""
    pod = make_pod(f"pod{number}", id=f"p{number:063}", uid=f"00000000-0000-4000-8000-{number:012}")
    pod.linux.cgroup_parent = f"/kubepods{'' if qos == 'Guaranteed' else f'/{qos.lower()}'}/pod{pod.uid}"
    return pod


def container_in(pod: m.PodSandbox, name: str, cpu_m: int) -> m.Container:
    """A container that asks for so much CPU."""
    container = make_container(name, pod, id=f"c{pod.id[1:]}", cpu_shares=max(2, cpu_m * 1024 // 1000))
    if pod.linux.cgroup_parent.startswith("/kubepods/pod"):
        container.linux.resources.cpu.quota.value, container.linux.resources.cpu.period.value = cpu_m * 100, 100_000
    container.state = m.ContainerState.CONTAINER_RUNNING
    return container


def one(number: int, kind: str) -> tuple[m.PodSandbox, m.Container]:
    """A pod with its container: one with its own CPU, one that shares, or one that asks for nothing."""
    qos, cpu_m = {"own": ("Guaranteed", 1000), "shares": ("Burstable", 110), "idle": ("BestEffort", 0)}[kind]
    pod = pod_of(number, qos)
    return pod, container_in(pod, f"{kind}-{number}", cpu_m)


def present(count: int) -> list[tuple[m.PodSandbox, m.Container]]:
    """This many pods; one in ten with its own CPU, and of the rest every other asks for nothing."""
    return [one(number, "own" if number % 10 == 0 else ("shares", "idle")[number % 2]) for number in range(count)]


class Runtime(FakeRuntime):
    """A runtime that records when a plugin last requested its containers, at the start of Synchronize."""

    asked_at = 0.0

    def _snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        self.asked_at = time.perf_counter()
        return super()._snapshot()


class Side:
    """One of the two programs, with a runtime that has `count` containers."""

    def __init__(self, command: Sequence[str], folder: Path, count: int, socket: str) -> None:
        existing = present(count)
        self._runtime = Runtime(
            socket_path=f"{folder}/nri.sock",
            pods=[pod for pod, _ in existing],
            containers=[container for _, container in existing],
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NRI_")}
        began = time.perf_counter()
        with Path(folder, "log").open("w") as log:
            words = [*command, socket, f"{folder}/nri.sock"]
            self.process = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
        ready = self._runtime.adaptation.ready([LABEL], PATIENCE_S)
        times = {"start": self._runtime.asked_at - began, "Synchronize": time.perf_counter() - self._runtime.asked_at}
        self.figures: dict[str, list[float]] = {key: [value * 1e3] for key, value in times.items()}
        if not ready:
            self.close()
            raise RuntimeError(f"{command[0]} did not take part: {Path(folder, 'log').read_text()[-2000:]}")
        time.sleep(0.5)
        self.figures["start and Synchronize, CPU"] = [cpu_ms(self.process.pid)]

    def _timed(self, what: str, call: Callable[..., Any], *arguments: Any) -> None:
        began = time.perf_counter()
        call(*arguments)
        self.figures.setdefault(what, []).append((time.perf_counter() - began) * 1e3)

    def life(self, number: int, kind: str) -> None:
        """One container from beginning to end."""
        runtime, (pod, container) = self._runtime, one(number, kind)
        before = cpu_ms(self.process.pid)
        runtime.run_pod_sandbox(pod)
        self._timed(EVENTS[0], runtime.create_container, pod, container)
        container = runtime.containers[container.id]  # with what the plugin has set, as a runtime has it
        runtime.start_container(pod, container)
        more = m.LinuxResources()
        more.CopyFrom(container.linux.resources)
        more.cpu.shares.value += 51
        if more.cpu.quota.value:
            more.cpu.quota.value += 5000
        self._timed(EVENTS[1], runtime.update_container, pod, container, more)
        self._timed(EVENTS[2], runtime.stop_container, pod, container)
        runtime.remove_container(pod, container)
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        self.figures.setdefault(LIFE, []).append(cpu_ms(self.process.pid) - before)

    def close(self) -> None:
        """Read its memory, and end it."""
        if self.process.poll() is None:
            rss, pss = memory(self.process.pid)
            self.figures |= {"RSS": [rss / 1024], "PSS": [pss / 1024]}
        self.process.kill()
        self.process.wait()
        self._runtime.close()


@contextmanager
def sides(policy: str, program: str, machine: Path, count: int) -> Iterator[tuple[Side, Side]]:
    """The original, and ours."""
    with tempfile.TemporaryDirectory(prefix="nri-bench-") as name:
        folder = Path(name)
        config = folder / "policy.yaml"
        config.write_text(yaml.safe_dump({"apiVersion": "config.nri/v1alpha1", **CONFIGS[policy]}))
        for program_name in ("original", "ours"):
            Path(folder, program_name).mkdir()
        index, title = LABEL.split("-")
        original_argv = [program, "-config-file", str(config), "-host-root", str(machine),
                         "-state-dir", f"{folder}/original", "-pid-file", f"{folder}/pid",
                         "-nri-plugin-index", index, "-nri-plugin-name", title]  # fmt: skip
        argv = [sys.executable, "-m", "nri.plugins", policy, "--config", str(config), "--host-root", str(machine),
                "--state-dir", f"{folder}/ours", "--idx", index, "--name", title]  # fmt: skip
        original = Side(original_argv, folder / "original", count, "-nri-socket")
        try:
            side = Side(argv, folder / "ours", count, "--socket-path")
            try:
                yield original, side
            finally:
                side.close()
        finally:
            original.close()


def measure(policy: str, program: str, machine: Path, count: int, rounds: int) -> dict[str, str]:
    """The figures with `count` containers: of the original, of this package, and their ratio."""
    values: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(rounds):
        with sides(policy, program, machine, count) as pair:
            for number in range(LIVES):
                for side in pair if number % 2 else pair[::-1]:
                    side.life(1000 + number, ("own", "shares", "idle")[number % 3])
        for key in pair[0].figures:
            figures = [side.figures[key] for side in pair]
            for name, chosen in (
                (("", 0.5), (" p99", 0.99)) if len(figures[0]) > 1 and "CPU" not in key else (("", 0.5),)
            ):
                for place, numbers in enumerate(figures):
                    figure = statistics.fmean(numbers) if key == LIFE else quantile(numbers, chosen)
                    values.setdefault(key + name, ([], []))[place].append(figure)
    return {
        key: f"{statistics.median(original):.2f}, {statistics.median(present):.2f}: {ratios(present, original)}"
        for key, (original, present) in values.items()
    }


def quantile(values: Sequence[float], part: float) -> float:
    """The value that so large a part is not above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def report(originals: Sequence[str], rounds: int) -> str:
    """Measure, and make the table. ValueError for what is no NAME=PROGRAM."""
    logging.disable()  # the runtime would log each end
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="nri-bench-") as folder:
        with tarfile.open(DATA) as tar:
            tar.extractall(folder)
        for name in NEEDED:
            Path(folder, MACHINE, name).parent.mkdir(exist_ok=True)
            Path(folder, MACHINE, name).write_text("0-3\n")
        for original in originals:
            policy, _, program = original.partition("=")
            if policy not in CONFIGS or not os.access(program, os.X_OK):
                raise ValueError(f"--original {original}: write topology-aware=PROGRAM or balloons=PROGRAM")
            tables = [measure(policy, program, Path(folder, MACHINE), count, rounds) for count in COUNTS]
            rows += [[policy, key, *(cells[key] for cells in tables)] for key in tables[0]]
    about = (
        f"{rounds} rounds of {LIVES} containers, {time.strftime('%Y-%m-%d')}, CPython {platform.python_version()}, "
        f"{platform.machine()}, {os.cpu_count()} cores shared with other work."
    )
    return f"{about}\n\n{table(['policy', 'ms or MiB', *(f'{count} containers' for count in COUNTS)], rows)}"
