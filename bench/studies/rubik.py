"""`python -m bench rubik [--write]`: what rubik's services do for an online container, and what they cost.

Containers are real, of a containerd 2.4 of the run's own; load and probe are processes in the cgroups of offline and of
online containers. A probe does a fixed piece of work repeatedly, with pauses, and times each: p50 and p99 of the
probe alone, next to offline load without the service and with it; and the throughput of the offline load. Arms are
interleaved. Then how long the evictions take from the moment at which their mark is crossed, and what an agent costs
that has every service on that this machine has, at rest, with `--pods` pods of two containers each that all ask for
quotaTurbo. With --write the tables go into bench/RESULTS.md, and the pictures into the documentation. It needs root,
and a machine that nobody else uses.
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
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.report import put, table
from bench.studies.plugins import memory
from bench.studies.rubik_decided import PICTURES, decided
from bench.studies.rubik_pictures import OURS, PLAIN, WORSE, bars, line
from nri import host
from nri.host.usage import ProcessorFiles
from tests.agent import files
from tests.agent.node import AgentProgram, Node, machine
from tests.agent.pods import containerd
from tools.runtimes.config import DaemonSettings
from tools.runtimes.cri import Pod
from tools.runtimes.mounts import unmount

HERE = Path(__file__).parent
PERIOD_US: Final = 100_000
PARTS: Final = ("latency", "quotaTurbo", "evictions", "cost")
ALONE, WITHOUT, WITH = "alone", "next to load", "with the service"
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
#: The quota of the container that shows quotaTurbo, for how long it rests, and for how long it runs alone.
_TURBO_US: Final = PERIOD_US // 20
_REST_S: Final = 12.0
_BURST_S: Final = 2.5


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
    load_rate: float

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
        device = os.stat(self.file).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        above = Path(f"/sys/dev/block/{number}").resolve().parent / "dev"
        return above.read_text().strip() if above.exists() else number

    @contextlib.contextmanager
    def agent(self, blocks: Mapping[str, Any]) -> Iterator[AgentProgram]:
        """An agent with these services."""
        self.configure(blocks)
        program = AgentProgram(self.node, "nri,standalone", pods="nri")
        gates = "".join(f"{name} = true\n" for name in blocks)
        text = program.settings_file.read_text().replace("/nowhere", str(self.node.daemon.cri_socket))
        text = re.sub(r"(?m)^interval = .*\n", "", text)  # the usual pauses, not those of tests
        program.settings_file.write_text(f'profile = "rubik"\n{text}\n[gates]\n{gates}')
        with program:
            yield program
            program.stop()

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
            before = self.load_done(load, case.disk)
            words = [str(self.seconds), str(case.loops), str(case.pause_s), str(self.file) if case.disk else ""]
            text = inside(folder, [sys.executable, "-c", PROBE, *words]).communicate(timeout=self.seconds + 60)[0]
            rate = (self.load_done(load, case.disk) - before) / self.seconds
            return Arm([duration * 1e3 for duration in json.loads(text)], rate)

    def load_done(self, folder: str, disk: bool) -> float:
        """Seconds of CPU that a cgroup has used, or the MiB that it has read."""
        if not folder:
            return 0.0
        if not disk:
            use = host.cgroup_usage(host.detect(host.Root("/")), folder, processor_only=True)
            return (use.cpu_ns or 0) / 1e9
        for top in files.tops():
            file = top / folder / "blkio.throttle.io_service_bytes_recursive"
            if file.exists():
                rows = (line.split() for line in file.read_text().splitlines())
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


def quota_of(folder: str) -> Callable[[], int]:
    """What reads the CPU quota of a cgroup."""
    writer = host.Writer(host.detect(host.Root("/")), refresh_s=0)

    def read() -> int:
        quota = writer.read(folder, "cpu.cfs_quota")
        return quota if isinstance(quota, int) else 0

    return read


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


class Turbo(NamedTuple):
    """How a container's burst went, by quotaTurbo: seconds from its begin, and the quota as a share of the limit.

    Attributes:
        used: CPUs that it had of the limit in the burst, without and with the service.
        quotas: moments and shares, while the node is idle but for it, and then full.
        full_s: when the node became full, and `back_s` for how many seconds it was until the quota fell.
    """

    used: tuple[float, float]
    quotas: list[tuple[float, float]]
    full_s: float
    back_s: float

    @property
    def maximum(self) -> float:
        """The highest quota as a share of the limit."""
        return max(share for _, share in self.quotas)

    def row(self) -> list[str]:
        """Of the table."""
        limit = f"{_TURBO_US / PERIOD_US:g}"
        return [limit, *(f"{cpus:.2f}" for cpus in self.used), f"{self.maximum:.2f}", f"{self.back_s * 1e3:.0f} ms"]


def turbo(bench: Bench) -> Turbo:
    """A container that rests, and then uses all CPU that it can get, until the node is full.

    It has little of the node, because quotaTurbo raises nothing while the node's use swings by more than a tenth, and
    it has rested for as long as it is remembered, because what it had more of before it gets less of later.
    """
    used, quotas = [], list[tuple[float, float]]()
    full_s, back = 0.0, float("inf")
    for on in (False, True):
        with contextlib.ExitStack() as stack:
            sleeper = ("sh", "-c", f"sleep {_REST_S}; {_burn(1)[2]}")
            pod, folder = bench.pod("turbo", {"quota-turbo": "true"}, sleeper, _TURBO_US)
            began = time.monotonic() + _REST_S
            stack.callback(bench.node.remove_pod, pod)
            full = threading.Event()
            if on:  # from now on: to create a container takes CPU, which would be a swing
                full = stack.enter_context(_numbers(bench.node))
                stack.enter_context(bench.agent({"quotaTurbo": {"syncInterval": 100}}))
            time.sleep(began - time.monotonic())
            before, quota = bench.load_done(folder, disk=False), quota_of(folder)
            _watch(quota, began, _BURST_S, quotas if on else [])
            used.append((bench.load_done(folder, disk=False) - before) / _BURST_S)
            if on:
                high, full_s = quota(), time.monotonic() - began
                full.set()
                _watch(quota, began, full_s + 2, quotas)
                fell = [at for at, share in quotas if at > full_s and share < high / _TURBO_US]
                back = fell[0] - full_s if fell else back
    return Turbo((used[0], used[1]), quotas, full_s, back)


def _watch(quota: Callable[[], int], began: float, until_s: float, quotas: list[tuple[float, float]]) -> None:
    """Note the quota of a cgroup as a share of its limit until so long after the begin."""
    while (at := time.monotonic() - began) < until_s:
        quotas.append((at, quota() / _TURBO_US))
        time.sleep(0.01)


@contextlib.contextmanager
def _numbers(node: Node) -> Iterator[threading.Event]:
    """Have the agent see a node that does nothing but the run's own pods, whatever else this machine does.

    What is yielded has the node's processors and memory be in use as a whole, from the moment on at which it is set.
    """
    # A tick is a hundredth of the kernel's: on two processors those are a twentieth of the node in a tenth of a second.
    hierarchies, hertz, cpus = host.detect(host.Root("/")), 100 * os.sysconf("SC_CLK_TCK"), os.cpu_count() or 1
    began, stop, full = time.monotonic(), threading.Event(), threading.Event()
    usual, since = Path("/proc/meminfo").read_text(), list[float]()

    def write() -> None:
        now = time.monotonic()
        since.extend([now] if full.is_set() and not since else [])
        busy_s = (host.cgroup_usage(hierarchies, node.cgroup, processor_only=True).cpu_ns or 0) / 1e9
        busy = int((busy_s + (cpus * (now - since[0]) if since else 0)) * hertz)
        idle = max(int((now - began) * cpus * hertz) + 1_000_000 - busy, 0)
        _overwrite(node.folder / "stat", f"cpu {busy} 0 0 {idle} 0 0 0 0 0 0\n")
        _overwrite(node.folder / "meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\n" if since else usual)

    def count() -> None:
        while not stop.wait(0.01):
            write()

    write()
    with contextlib.ExitStack() as stack:
        for name in ("stat", "meminfo"):
            target = node.root / "proc" / name
            subprocess.run(["mount", "--bind", str(node.folder / name), str(target)], check=True, timeout=10)
            stack.callback(unmount, target)
        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        try:
            yield full
        finally:
            stop.set()
            thread.join()


def _overwrite(path: Path, text: str) -> None:
    """Write a file at once, as one that is mounted elsewhere as well: it is never cut short."""
    with path.open("r+" if path.exists() else "w") as file:
        file.write(text)
        file.truncate()


def evictions(bench: Bench) -> dict[str, float]:
    """By service the seconds from the moment at which its mark is crossed to the end of the victim's process."""
    victims = {}
    # The average reaches the mark if the node is fully used for one of two seconds.
    blocks = {"cpuevict": ({"threshold": 50, "windows": 2}, 1.0), "memoryevict": ({"threshold": 90}, 0.0)}
    for name, (block, later_s) in blocks.items():
        with contextlib.ExitStack() as stack:
            full = stack.enter_context(_numbers(bench.node))
            stack.enter_context(bench.agent({name: {"interval": 1, **block}}))
            pod, folder = bench.pod("batch", {"preemptable": "true"}, ("sleep", "100000"))
            stack.callback(bench.node.remove_pod, pod)
            pid = bench.node.pid(folder.rpartition("/")[2])
            time.sleep(4)
            if _has_ended(pid):
                raise RuntimeError(f"{name} has evicted before the mark was crossed")
            full.set()
            victims[name] = until(functools.partial(_has_ended, pid)) - later_s
    return victims


def cost(bench: Bench, pods: int) -> list[list[str]]:
    """An agent at rest with many pods that use quotaTurbo: rows of a table."""

    def make(number: int) -> tuple[Pod, list[str]]:
        pod, first = bench.pod(f"rest-{number}", {"quota-turbo": "true"}, ("sleep", "100000"), PERIOD_US // 10)
        second = bench.node.daemon.cri.run(pod, "more", ("sleep", "100000"), cpu_quota=PERIOD_US // 10)
        return pod, [first, f"{first.rpartition('/')[0]}/{second}"]

    rows = []
    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(make, range(pods)))
        folders = [folder for _, several in created for folder in several]
        try:
            root = host.Root("/")
            writers = [ProcessorFiles(host.detect(root), root, folder) for folder in folders]
            took = []
            for _ in range(21):
                begin = time.thread_time()
                for writer_ in writers:
                    writer_.read()
                took.append((time.thread_time() - begin) * 1e3)
            for writer_ in writers:
                writer_.close()
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
            list(pool.map(lambda writer_: bench.node.remove_pod(writer_[0]), created))
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
    """The cases whose latency a probe measures."""
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
                say(f"{name}, {arm}: p50 {last.p(50):.2f}, p99 {last.p(99):.2f} ms, load {last.load_rate:.2f}")
    return measured


def measure(bench: Bench, chosen: argparse.Namespace, say: Callable[[str], None]) -> tuple[list[str], dict[str, str]]:
    """The chosen parts: tables with a line above each, and pictures by name."""
    parts, texts, pictures = chosen.part or PARTS, list[str](), dict[str, str]()
    if "latency" in parts:
        arms = latency(bench, chosen.rounds, say)
        texts.append(latencies(arms))
        pictures |= {name: _bars(name, arm_values) for name, arm_values in arms.items()}
    if "quotaTurbo" in parts:
        burst = turbo(bench)
        head = ["limit, CPUs", "used in a burst without", "with", "most quota / limit", "falls after the node is full"]
        texts += [
            f"`quotaTurbo`, a burst of {_BURST_S:g} s on a node that is idle but for it:",
            table(head, [burst.row()]),
        ]
        lines = {"quota / limit": burst.quotas}
        pictures["quotaTurbo"] = line("Quota of a container in a burst", lines, {"the node is full": burst.full_s})
    if "evictions" in parts:
        took = evictions(bench)
        rows = [[name, "1 s", f"{seconds:.2f} s"] for name, seconds in took.items()]
        texts += ["From the mark to the end of the victim:", table(["service", "interval", "until it has ended"], rows)]
        marked = [(name, seconds, f"{seconds:.2f} s", OURS) for name, seconds in took.items()]
        title = "Seconds from the mark to the end of the victim"
        pictures["evictions"] = bars(title, [*marked, ("interval", 1.0, "1 s", PLAIN)])
    if "cost" in parts:
        head = ["quotaTurbo every", "CPU at rest", "memory", f"sampling {2 * chosen.pods} containers"]
        about = f"The agent with {', '.join(every_service(0))}, with {chosen.pods} idle pods:"
        texts += [about, table(head, cost(bench, chosen.pods))]
    return texts, pictures


def latencies(measured: Mapping[str, Mapping[str, list[Arm]]]) -> str:
    """The table of probes and of what the offline load got done."""
    rows = []
    for name, arms in measured.items():
        for arm, rounds in arms.items():
            one = Arm(
                [duration for one in rounds for duration in one.took_ms],
                statistics.median(one.load_rate for one in rounds),
            )
            unit = "MiB/s" if name == "ioLimit" else "CPUs"
            rate = f"{one.load_rate:.2f} {unit}" if one.load_rate else "-"
            rows.append([name, arm, f"{one.p(50):.2f}", f"{one.p(99):.2f}", rate])
    return table(["service", "online container", "p50, ms", "p99, ms", "offline load"], rows)


def _bars(name: str, arms: Mapping[str, list[Arm]]) -> str:
    """The picture of a probe's p99 and p50."""
    colours = {ALONE: PLAIN, WITHOUT: WORSE, WITH: OURS}
    pooled = {arm: Arm([duration for one in rounds for duration in one.took_ms], 0) for arm, rounds in arms.items()}
    rows = [
        (f"p{percent}, {arm}", rounds.p(percent), f"{rounds.p(percent):.2f} ms", colours[arm])
        for percent in (99, 50)
        for arm, rounds in pooled.items()
    ]
    return bars(f"{name}: a piece of work in an online container", rows)


def _cpus() -> str:
    mode = host.detect(host.Root("/")).mode
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, cgroups {mode}"


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench rubik", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each arm")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pods", type=int, default=110, help="number of idle pods for the agent at rest")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure this alone; several times for several")
    parser.add_argument("--shared", action="store_true", help="say on the page that the machine was not quiet")
    parser.add_argument("--write", action="store_true", help="into bench/RESULTS.md and docs/_static/rubik")
    chosen = parser.parse_args(arguments)
    if chosen.write and chosen.part:
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
        texts, pictures = measure(bench, chosen, say)
    noise = " The machine was shared with other work, so these figures are rough." if chosen.shared else ""
    about = f"{chosen.rounds} rounds of {chosen.seconds:g} s, {time.strftime('%Y-%m-%d')}, {_cpus()}.{noise}"
    text = "\n\n".join([about, *texts])
    print(f"{text}\n\n{time.monotonic() - began:.0f} s in all")
    if chosen.write:
        images = "\n".join(f"![{name}](../docs/_static/rubik/{name}.svg)" for name in pictures)
        put("rubik", f"{text}\n\n{images}")
        PICTURES.mkdir(exist_ok=True)
        for name, drawn in (pictures | decided()).items():
            (PICTURES / f"{name}.svg").write_text(drawn)
    return 0
