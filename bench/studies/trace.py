"""What recordings cost and give: `python -m bench trace [FIGURE...]`; only prints. Recording's price for an event is in
`python -m bench state-recorder create-recorder state-10-recorder create-10-recorder`.

| figure | what is measured |
|---|---|
| size | bytes on disk of 1,000 events of pods' lives with ten plugins, values replaced and kept |
| replay | events a second through the real adaptation with one plugin, `nri replay` without its start |
| open | a million events: seconds until `nri inspect` can show its first page, and its memory then and at most |
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nri
from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace import blocks
from nri.trace.history import Trace
from nri.trace.recorder import Recorder
from nri.wire import bytes_field

PLUGINS = 10


class Lives(nri.Plugin):
    """Sets one variable, and observes events."""

    def __init__(self, number: int) -> None:
        self.number = number

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env(f"BENCH_{self.number}", f"{pod.name}/{container.name}")

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        pass

    start_container = post_start_container = remove_container = post_create_container

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        pass


def record(folder: Path, events: int, plugins: int, *, redact: bool) -> int:
    """Record lives of containers until there are this many events; returns their number. Waits for the writer."""
    recorded = 0
    with Recorder(folder, redact=redact) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        for number in range(plugins):
            runtime.add(Lives(number), f"{number:02}")
        while recorded < events:
            pod = make_pod(id=f"p{recorded:063}", name=f"web-{recorded % 50}", namespace="shop")
            env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOSTNAME": pod.name, "PORT": "80"}
            container = make_container(id=f"c{recorded:063}", name="app", env=env, memory_limit=64 << 20)
            runtime.create_container(pod, container)
            for life in ("post_create", "start", "post_start", "stop", "remove"):
                getattr(runtime, f"{life}_container")(pod, container)
            recorded += 6
            if recorded % 600 == 0:
                time.sleep(0.2)
    return recorded


def multiply(folder: Path, times: int) -> None:
    """Repeat a recording this many times."""
    (file,) = folder.iterdir()
    records = [record for record, _ in Trace(file).records() if record.serial]
    serials, begin = max(record.serial for record in records) + 1, records[0].time_ns
    span = records[-1].time_ns - begin + 1
    with file.open("ab") as out:
        for _ in range(1, times):
            for first in range(0, len(records), 1000):
                part = records[first : first + 1000]
                for record in part:
                    record.serial += serials
                    record.time_ns += span
                raw = b"".join(bytes_field(1, record.SerializeToString()) for record in part)
                out.write(blocks.pack(raw, len(part), part[0].time_ns, part[-1].time_ns))


def size() -> None:
    """Bytes a thousand events."""
    for redact in (True, False):
        with tempfile.TemporaryDirectory(prefix="nri-b-") as name:
            events = record(Path(name), 12_000, PLUGINS, redact=redact)
            total = sum(file.stat().st_size for file in Path(name).iterdir())
        mode = "replaced" if redact else "kept"
        print(f"size, values {mode}: {total / events * 1000 / (1 << 20):.3f} MiB a thousand events, {PLUGINS} plugins")


def replay() -> None:
    """Events a second."""
    with tempfile.TemporaryDirectory(prefix="nri-b-") as name:
        events = record(Path(name), 30_000, 1, redact=False)
        with Replay(name) as session:
            session.add(Lives(0), "00")
            began, cpu = time.monotonic(), time.process_time()
            differences = session.differences()
            took, cpu = time.monotonic() - began, time.process_time() - cpu
    rates = f"{events / took:,.0f} events/s, {events / cpu:,.0f} a second of processor time"
    print(f"replay: {rates}, 1 plugin; {len(differences)} differ or are missing")


_OPENING = """
import json, resource, sys, time
began = time.monotonic()
from nri.inspector.sources import Recording
from nri.inspector.web import Web
source = Recording(sys.argv[1])
with Web(source):
    source.start()
    source.overview()
    while not (rows := len(source.events()["rows"])):
        time.sleep(0.01)
    took = time.monotonic() - began
    def kb(): return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])
    first = kb()
    while not source.overview()["done"]:
        time.sleep(0.2)
    print(json.dumps({"s": took, "rows": rows, "mib": first / 1024, "whole_s": time.monotonic() - began,
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def opening() -> None:
    """Seconds and memory."""
    with tempfile.TemporaryDirectory(prefix="nri-b-") as name:
        events = 100 * record(Path(name), 10_000, 1, redact=False)
        multiply(Path(name), 100)
        process = subprocess.run([sys.executable, "-c", _OPENING, name], stdout=subprocess.PIPE, text=True, check=True)
        it: dict[str, Any] = json.loads(process.stdout)
    print(
        f"open, {events:,} events: first page after {it['s']:.2f} s with {it['mib']:.0f} MiB; "
        f"all sums after {it['whole_s']:.0f} s, {it['peak_mib']:.0f} MiB at most"
    )


FIGURES = {"size": size, "replay": replay, "open": opening}


def main(names: list[str]) -> int:
    """Measure those that are named, or all."""
    unknown = set(names) - set(FIGURES)
    if unknown:
        sys.stderr.write(f"bench: error: no figure {', '.join(sorted(unknown))}: {', '.join(FIGURES)}\n")
        return 2
    for name in names or FIGURES:
        FIGURES[name]()
    return 0
