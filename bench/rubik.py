"""`python -m bench rubik [--write]`: what rubik's services do for an online container, and what they cost.

Containers are real, of a containerd 2.4 of the run's own; load and probe are processes in the cgroups of offline and of
online containers. A probe does a fixed piece of work over and over, with pauses, and times each: p50 and p99 of the
probe alone, beside offline load without the service, and with it; and what the offline load got done. Arms are
interleaved. Then how long the evictions take from the moment at which their mark is crossed, and what an agent costs
that has every service on that this machine has, at rest, with `--pods` pods of two containers each that all ask for
quotaTurbo. With --write the tables go into bench/RESULTS.md and the picture beside it. It needs root, and a machine
that nobody else uses.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

from bench.plugins import memory
from bench.report import table
from nri import host
from nri.host.usage import ProcessorFiles
from tests.agent import files
from tests.agent.node import AgentProgram, Node, machine
from tests.agent.pods import containerd
from tools.runtimes.config import DaemonSettings
from tools.runtimes.cri import Pod

HERE = Path(__file__).parent
RESULTS, PICTURE = HERE / "RESULTS.md", HERE / "rubik.svg"
BEGIN, END = "<!-- rubik -->", "<!-- end of rubik -->"
PERIOD_US: Final = 100_000
PARTS: Final = ("latency", "quotaTurbo", "evictions", "cost")
ALONE, WITHOUT, WITH = "alone", "beside load", "with the service"
#: A probe's work and pause: for how long, and how often; `read` is the bytes of one read that passes by the page cache.
PROBE: Final = """
import json, os, random, sys, time
seconds, loops, pause, path = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
if path:
    import mmap
    file, room, blocks = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096), os.path.getsize(path) // 4096
end, took = time.monotonic() + seconds, []
while time.monotonic() < end:
    begin = time.perf_counter()
    for _ in range(loops): pass
    if path: os.preadv(file, [room], random.randrange(blocks) * 4096)
    took.append(time.perf_counter() - begin)
    time.sleep(pause)
print(json.dumps(took))
"""
READER: Final = """
import mmap, os, sys
room, size = mmap.mmap(-1, 1 << 20), os.path.getsize(sys.argv[1])
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while True:
    for at in range(0, size, 1 << 20): os.preadv(file, [room], at)
"""
_FILE_MIB: Final = 256
_SETTLE_S: Final = 1.0
_PATIENCE_S: Final = 30.0


class Case(NamedTuple):
    """A service with the pods that show what it does.

    Attributes:
        blocks: of rubik's file.
        loops: of the probe's work, and its pause in seconds.
        disk: whether probe and load read a file.
        online, offline: annotations, without `volcano.sh/`, of the probe's and of the load's pod.
        quota: of the online container, in microseconds; 0 for none.
    """

    blocks: Mapping[str, Any]
    loops: int = 60_000
    pause_s: float = 0.008
    disk: bool = False
    online: Mapping[str, str] = {}
    offline: Mapping[str, str] = {}
    quota: int = 0


class Arm(NamedTuple):
    """What was measured: milliseconds of the probe, and CPUs or MiB in a second of the load."""

    took_ms: list[float]
    done: float

    def p(self, percent: int) -> float:
        """A percentile of the probe."""
        ordered = sorted(self.took_ms)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Bench:
    """One node, and its agent when a service is on."""

    def __init__(self, node: Node, seconds: float) -> None:
        self.node, self.seconds = node, seconds
        self.file = node.folder / "data"
        self.file.write_bytes(os.urandom(1 << 20) * _FILE_MIB)
        os.sync()

    def disk(self) -> str:
        """The numbers of the disk that the file is on."""
        found = os.stat(self.file).st_dev
        number = f"{os.major(found)}:{os.minor(found)}"
        above = Path(f"/sys/dev/block/{number}").resolve().parent / "dev"
        return above.read_text().strip() if above.exists() else number

    @contextlib.contextmanager
    def agent(self, blocks: Mapping[str, Any]) -> Iterator[AgentProgram]:
        """An agent with these services."""
        self.configure(blocks)
        made = AgentProgram(self.node, "nri,standalone", pods="nri")
        gates = "".join(f"{name} = true\n" for name in blocks)
        text = made.settings_file.read_text().replace("/nowhere", str(self.node.daemon.cri_socket))
        text = re.sub(r"(?m)^interval = .*\n", "", text)  # the usual pauses, not those of tests
        made.settings_file.write_text(f'profile = "rubik"\n{text}\n[gates]\n{gates}')
        with made:
            yield made
            made.stop()

    def configure(self, blocks: Mapping[str, Any]) -> None:
        """Give the agent rubik's file."""
        text = {"agent": {"informerType": "nri", "enabledFeatures": list(blocks)}, **blocks}
        (self.node.rules / "new").write_text(json.dumps(text))
        (self.node.rules / "new").rename(self.node.rules / "config.json")

    def pod(self, name: str, words: Mapping[str, str], command: Sequence[str], quota: int = 0) -> tuple[Pod, str]:
        """A pod with one container; returns its cgroup as well."""
        annotations = {f"volcano.sh/{key}": text for key, text in words.items()}
        pod = self.node.run_pod(name, "Burstable", annotations=annotations)
        options = {"cpu_quota": quota, "cpu_period": PERIOD_US} if quota else {}
        number = self.node.daemon.cri.run(pod, "app", command, **options)
        return pod, f"{pod.config.linux.cgroup_parent.strip('/')}/{number}"

    def arm(self, case: Case, arm: str) -> Arm:
        """One arm of a case."""
        with contextlib.ExitStack() as stack:
            if arm == WITH:
                stack.enter_context(self.agent(case.blocks))
            pod, folder = self.pod("web", case.online, ("sleep", "100000"), case.quota)
            stack.callback(self.node.remove_pod, pod)
            load = ""
            if arm != ALONE and not case.quota:
                command = ("sleep", "100000") if case.disk else _burn(2 * (os.cpu_count() or 1))
                other, load = self.pod("batch", {"preemptable": "true", **case.offline}, command)
                stack.callback(self.node.remove_pod, other)
                if case.disk:
                    reader = inside(load, [sys.executable, "-c", READER, str(self.file)])
                    stack.callback(_end, reader)
            time.sleep(_SETTLE_S)
            before = self.done(load, case.disk)
            words = [str(self.seconds), str(case.loops), str(case.pause_s), str(self.file) if case.disk else ""]
            text = inside(folder, [sys.executable, "-c", PROBE, *words]).communicate(timeout=self.seconds + 60)[0]
            done = (self.done(load, case.disk) - before) / self.seconds
            return Arm([each * 1e3 for each in json.loads(text)], done)

    def done(self, folder: str, disk: bool) -> float:
        """Seconds of CPU that a cgroup has used, or the MiB that it has read."""
        if not folder:
            return 0.0
        if not disk:
            use = host.cgroup_usage(host.detect(host.Root("/")), folder, processor_only=True)
            return (use.cpu_ns or 0) / 1e9
        for top in files.tops():
            found = top / folder / "blkio.throttle.io_service_bytes_recursive"
            if found.exists():
                rows = (line.split() for line in found.read_text().splitlines())
                return sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Read") / (1 << 20)
        return 0.0


def _burn(count: int) -> tuple[str, ...]:
    loops = "while :; do :; done & " * (count - 1)
    return ("sh", "-c", f"{loops}while :; do :; done")


def inside(folder: str, command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a program in the cgroups of a container."""
    places = [str(top / folder / "cgroup.procs") for top in files.tops() if (top / folder).is_dir()]
    join = "".join(f"echo $$ >{place} && " for place in places)
    return subprocess.Popen(["/bin/sh", "-c", f'{join}exec "$@"', "sh", *command], stdout=subprocess.PIPE, text=True)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def until(ready: Callable[[], bool]) -> float:
    """Wait; return for how many seconds it was."""
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > _PATIENCE_S:
            return float("inf")
        time.sleep(0.01)
    return time.monotonic() - begin


def quota_of(folder: str) -> int:
    """The CPU quota of a cgroup."""
    found = host.Writer(host.detect(host.Root("/")), refresh_s=0).read(folder, "cpu.cfs_quota")
    return found if isinstance(found, int) else 0


def _below(folder: str, quota: int) -> bool:
    return quota_of(folder) < quota


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def turbo(bench: Bench) -> list[str]:
    """A throttled container on an idle node, and a load that ends that: a row of a table."""
    quota, used = PERIOD_US // 2, list[float]()
    most, back = quota, float("inf")
    for on in (False, True):
        with contextlib.ExitStack() as stack:
            if on:
                stack.enter_context(bench.agent({"quotaTurbo": {"syncInterval": 100}}))
            pod, folder = bench.pod("turbo", {"quota-turbo": "true"}, ("sh", "-c", f"sleep 3; {_burn(1)[2]}"), quota)
            stack.callback(bench.node.remove_pod, pod)
            time.sleep(3 + _SETTLE_S)
            before, end = bench.done(folder, disk=False), time.monotonic() + bench.seconds
            while time.monotonic() < end:
                time.sleep(0.05)
                most = max(most, quota_of(folder))
            used.append((bench.done(folder, disk=False) - before) / bench.seconds)
            if on:
                other, _ = bench.pod("batch", {"preemptable": "true"}, _burn(2 * (os.cpu_count() or 1)))
                stack.callback(bench.node.remove_pod, other)
                high = quota_of(folder)
                back = until(functools.partial(_below, folder, high)) if high > quota else float("inf")
    shown = "never rose" if back == float("inf") else f"{back * 1e3:.0f} ms"
    return [f"{quota / PERIOD_US:g}", f"{used[0]:.2f}", f"{used[1]:.2f}", f"{most / quota:.2f}", shown]


def evictions(bench: Bench) -> list[list[str]]:
    """From a mark that is crossed to the end of the victim's process: rows of a table."""
    rows = []
    for name, more in (("cpuevict", {"windows": 2}), ("memoryevict", {})):
        high, low = ({name: {"threshold": threshold, "interval": 1, **more}} for threshold in (99, 1))
        with bench.agent(high), contextlib.ExitStack() as stack:
            pod, folder = bench.pod("batch", {"preemptable": "true"}, _burn(1))
            stack.callback(bench.node.remove_pod, pod)
            pid = bench.node.pid(folder.rpartition("/")[2])
            time.sleep(3)
            early = _gone(pid)
            bench.configure(low)
            seconds = until(functools.partial(_gone, pid))
            rows.append([name, "1 s", "before the mark moved" if early else f"{seconds:.2f} s"])
    return rows


def cost(bench: Bench, pods: int) -> list[list[str]]:
    """An agent at rest beside many pods that ask for quotaTurbo: rows of a table."""

    def make(number: int) -> tuple[Pod, list[str]]:
        pod, first = bench.pod(f"rest-{number}", {"quota-turbo": "true"}, ("sleep", "100000"), PERIOD_US // 10)
        second = bench.node.daemon.cri.run(pod, "more", ("sleep", "100000"), cpu_quota=PERIOD_US // 10)
        return pod, [first, f"{first.rpartition('/')[0]}/{second}"]

    rows = []
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, range(pods)))
        folders = [folder for _, several in made for folder in several]
        try:
            root = host.Root("/")
            held = [ProcessorFiles(host.detect(root), root, folder) for folder in folders]
            took = []
            for _ in range(21):
                begin = time.thread_time()
                for each in held:
                    each.read()
                took.append((time.thread_time() - begin) * 1e3)
            for each in held:
                each.close()
            for pause in (1000, 100):
                with bench.agent(every_service(pause)) as agent:
                    time.sleep(5)
                    before, began = _cpu_s(agent.pid), time.monotonic()
                    time.sleep(15)
                    share = 100 * (_cpu_s(agent.pid) - before) / (time.monotonic() - began)
                    size = memory(agent.pid)[0] / 1024
                    rows.append(
                        [f"{pause} ms", f"{share:.1f} %", f"{size:.0f} MiB", f"{statistics.median(took):.1f} ms"]
                    )
        finally:
            list(pool.map(lambda each: bench.node.remove_pod(each[0]), made))
    return rows


def every_service(pause_ms: int) -> dict[str, Any]:
    """All services that go together and that a machine without openEuler's kernel may have."""
    return {
        "preemption": {"resource": ["cpu", "memory"]},
        "quotaTurbo": {"syncInterval": pause_ms},
        "ioLimit": None,
        "dynMemory": {"policy": "fssr"},
        "psi": {"resource": ["cpu", "memory", "io"]},
        "cpuevict": {"threshold": 99},
        "memoryevict": {"threshold": 99},
    }


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cases(disk: str) -> dict[str, Case]:
    """The cases whose latency a probe tells."""
    limit = json.dumps({"device_read_bps": [{"device": disk, "value": str(8 << 20)}]})
    return {
        "preemption": Case({"preemption": {"resource": ["cpu", "memory"]}}),
        "ioLimit": Case({"ioLimit": None}, loops=0, disk=True, offline={"blkio-limit": limit}),
        # 20 ms of work with a pause, by a quota of 15 ms in each 100: by itself it takes two periods.
        "quotaBurst": Case(
            {"quotaBurst": None}, loops=800_000, pause_s=0.28, online={"quota-burst-time": "15000"}, quota=15_000
        ),
    }


def latency(bench: Bench, rounds: int, say: Callable[[str], None]) -> dict[str, dict[str, list[Arm]]]:
    """The arms of all cases, in turns, by case and arm."""
    measured: dict[str, dict[str, list[Arm]]] = {}
    for _ in range(rounds):
        for name, case in cases(bench.disk()).items():
            for arm in (ALONE, WITH) if case.quota else (ALONE, WITHOUT, WITH):
                last = bench.arm(case, arm)
                measured.setdefault(name, {}).setdefault(arm, []).append(last)
                say(f"{name}, {arm}: p50 {last.p(50):.2f}, p99 {last.p(99):.2f} ms, load {last.done:.2f}")
    return measured


def page(measured: Mapping[str, Mapping[str, list[Arm]]], more: Sequence[str], about: str) -> str:
    """The part of the page."""
    rows = []
    for name, arms in measured.items():
        for arm, found in arms.items():
            values = [
                Arm([each for one in found for each in one.took_ms], statistics.median(one.done for one in found))
            ]
            unit = "MiB/s" if name == "ioLimit" else "CPUs"
            done = f"{values[0].done:.2f} {unit}" if values[0].done else "-"
            rows.append([name, arm, f"{values[0].p(50):.2f}", f"{values[0].p(99):.2f}", done])
    first = table(["service", "online container", "p50, ms", "p99, ms", "offline load"], rows)
    return "\n\n".join([about, first, *more])


def picture(measured: Mapping[str, Mapping[str, list[Arm]]]) -> str:
    """p99 of the probe, a panel for each service, on a scale of its own."""
    colours = {ALONE: "#9db4c8", WITHOUT: "#d9534f", WITH: "#2a7de1"}
    drawn, y = [], 40
    for name, arms in measured.items():
        p99 = {arm: Arm([each for one in found for each in one.took_ms], 0).p(99) for arm, found in arms.items()}
        drawn.append(f'<text x="12" y="{y + 12}" font-weight="600">{escape(name)}</text>')
        for arm, value in p99.items():
            y += 20
            width = 420 * value / max(*p99.values(), 1e-9)
            drawn.append(
                f'<text x="142" y="{y + 12}" text-anchor="end">{arm}</text>'
                f'<rect x="150" y="{y}" width="{width:.1f}" height="14" rx="2" fill="{colours[arm]}"/>'
                f'<text x="{156 + width:.0f}" y="{y + 12}">{value:.2f} ms</text>'
            )
        y += 34
    heading = "p99 of a probe in an online container (shorter is better)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{y}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/><text x="12" y="22" font-size="15" font-weight="700">{heading}'
        f"</text>{''.join(drawn)}</svg>\n"
    )


def _cpus() -> str:
    mode = host.detect(host.Root("/")).mode
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, cgroups {mode}"


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench rubik", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each arm")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pods", type=int, default=110, help="beside which the agent rests")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure this alone; several times for several")
    parser.add_argument("--shared", action="store_true", help="say on the page that the machine was not quiet")
    parser.add_argument("--write", action="store_true", help="into bench/RESULTS.md and bench/rubik.svg")
    chosen = parser.parse_args(arguments)
    parts = chosen.part or PARTS
    if chosen.write and len(parts) < len(PARTS):
        parser.error("--write is for all parts")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # containers and mounts go
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s: {what}", file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(containerd("2.4", settings=DaemonSettings(request_timeout_s=10.0)))
        root = stack.enter_context(machine(daemon.run_dir / "host", daemon.run_dir.name))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nri-rubik-", dir=HERE)))
        bench = Bench(Node(daemon, root, folder / "agent"), chosen.seconds)
        stack.callback(daemon.cri.remove_all)
        measured = latency(bench, chosen.rounds if "latency" in parts else 0, say)
        more: list[str] = []
        if "quotaTurbo" in parts:
            head = ["limit, CPUs", "used without", "used with", "most quota / limit", "taken back after a load begins"]
            more += ["`quotaTurbo`, a busy container on a node that is idle but for it:", table(head, [turbo(bench)])]
        if "evictions" in parts:
            head = ["service", "interval", "until it has ended"]
            more += ["From the mark to the end of the victim:", table(head, evictions(bench))]
        if "cost" in parts:
            head = ["quotaTurbo every", "CPU at rest", "memory", f"sampling {2 * chosen.pods} containers"]
            services = ", ".join(every_service(0))
            more += [
                f"The agent with {services}, beside {chosen.pods} pods that rest:",
                table(head, cost(bench, chosen.pods)),
            ]
    noise = " The machine was shared with other work, so these figures are rough." if chosen.shared else ""
    about = f"{chosen.rounds} rounds of {chosen.seconds:g} s, {time.strftime('%Y-%m-%d')}, {_cpus()}.{noise}"
    text = page(measured, more, about)
    print(f"{text}\n\n{time.monotonic() - began:.0f} s in all")
    if chosen.write:
        before, _, rest = RESULTS.read_text().partition(BEGIN)
        image = "![p99 of the probe, by service](rubik.svg)"
        RESULTS.write_text(f"{before}{BEGIN}\n{image}\n\n{text}\n{END}{rest.partition(END)[2]}")
        PICTURE.write_text(picture(measured))
    return 0
