"""What an event costs in Python on either side, without a kernel: `python -m bench.micro [CASE...]`.

An `Adaptation` with policy, metrics and provenance on has plugins whose connections are replaced by canned replies; a
plugin's `Session` is given canned requests. So no socket and no switch between threads is in the figures. The shortest
of many short runs counts; that is steady on a machine that others use. To compare machines, divide by the line `scale`,
which is the cost of encoding the pod and the container once.

`--count FOLDER` has valgrind count instructions instead of time: the same figure each time, whatever else the machine
does. It knows nothing of caches and of the kernel. `--profile` shows where the time of the pure package goes. Which
build is measured PYTHONPATH says: `PYTHONPATH=build/compiled/3.11:. python -m bench.micro`.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import plugin
from bench.payload import make_container, make_pod
from nri.adaptation import Adaptation
from nri.adaptation.adaptation import parts_of
from nri.api import naming
from nri.metrics.prometheus import PrometheusObserver
from nri.stub.session.session import Session
from nri.ttrpc.envelope import encode_request, encode_response, request_prefix
from nri.wire import bytes_field

ROUNDS = 120
EVENTS = 60  # per round
WARM, COUNTED = 20, 100  # events before instructions are counted, and while they are
_HEADER = struct.Struct(">IIBB")
_REQUEST, _RESPONSE = 1, 2


class Canned:
    """A transport that answers every call with the same reply; all the rest goes to the real one."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._real = link.transport
        self.reply = b""

    def fileno(self) -> int:
        return -1

    def send(self, connection: int, message: list[bytes], deadline: float | None) -> None:
        pass

    def receive(self, deadline: float | None) -> list[tuple[int, bytes]]:
        stream_id = self._link.client.next_id - 2
        return [(1, _HEADER.pack(len(self.reply), stream_id, _RESPONSE, 0) + self.reply)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Runtime:
    """A runtime with some plugins that answer at once: with their adjustment, or with nothing."""

    def __init__(self, plugins: int) -> None:
        self.pod, self.container = make_pod(), make_container()
        self.adaptation = Adaptation(
            "bench",
            "v1.0.0",
            synchronize=lambda: ([], []),
            update=lambda updates: [],
            disable_connections=True,
            plugin_path="/nonexistent",
            policy_path=None,
            request_timeout_s=60.0,
            observer=PrometheusObserver(SimpleNamespace(register=lambda observer: None)),
        )
        self.adaptation.start()
        self.transports: list[Canned] = []
        self.replies: list[bytes] = []
        for n in range(plugins):
            self._join(n)

    def _join(self, n: int) -> None:
        index = f"{n:02}"
        runtime_end, plugin_end = socket.socketpair()
        plugin_object = bench_plugin(index)
        threading.Thread(target=Session(plugin_object, plugin_end, index=index, name="bench").run, daemon=True).start()
        self.adaptation.connect(runtime_end)
        while sum(row.state == "active" for row in self.adaptation.plugins) <= n:
            time.sleep(0.01)
        plugin.Bench.first = n == 0
        adjustment: Any = plugin_object.create_container(self.pod, self.container)
        self.replies.append(encode_response(bytes_field(1, adjustment.message.SerializeToString())))
        endpoint = parts_of(self.adaptation).chain.peers[n].endpoint
        endpoint.link.watch = None
        endpoint.link.transport = Canned(endpoint.link)
        self.transports.append(endpoint.link.transport)

    def answer(self, *, adjust: bool) -> None:
        """From now on plugins answer with their adjustment, or with nothing."""
        for transport, reply in zip(self.transports, self.replies, strict=True):
            transport.reply = reply if adjust else b""

    def state_change(self) -> None:
        """One PostStartContainer."""
        self.answer(adjust=False)
        self.adaptation.post_start_container(self.pod, self.container)

    def create(self) -> None:
        """One CreateContainer, to which all plugins answer with an adjustment."""
        self.answer(adjust=True)
        self.adaptation.create_container(self.pod, self.container)

    def create_unchanged(self) -> None:
        """One CreateContainer, to which no plugin has anything to say."""
        self.answer(adjust=False)
        self.adaptation.create_container(self.pod, self.container)


class Plugin:
    """A plugin that gets one request after the other, and whose replies go nowhere."""

    def __init__(self, index: str = "00") -> None:
        pod, container = make_pod().SerializeToString(), make_container().SerializeToString()
        self._payload = bytes_field(1, pod) + bytes_field(2, container)
        session: Any = Session(bench_plugin(index), socket.socketpair()[0], index=index, name="bench")
        plugin.Bench.first = index == "00"
        session._service.stage = "ready"
        endpoint = session._endpoint
        endpoint.link.transport = Canned(endpoint.link)
        self._dispatch = endpoint._answerer.dispatch
        self._stream = 1

    def _serve(self, method: str) -> None:
        request = encode_request(request_prefix(naming.PLUGIN_SERVICE, method), self._payload, 60_000_000_000)
        frame = _HEADER.pack(len(request), self._stream, _REQUEST, 0) + request
        self._stream += 2
        self._dispatch([(naming.PLUGIN_SERVICE_CONN, frame)], patient=True)

    def state_change(self) -> None:
        """Answer one PostStartContainer."""
        self._serve("PostStartContainer")

    def create(self) -> None:
        """Answer one CreateContainer with an adjustment."""
        self._serve("CreateContainer")


def bench_plugin(index: str) -> plugin.Bench:
    """The benchmarks' plugin, quiet."""
    plugin.OPTIONS = SimpleNamespace(index=index)
    plugin.say = lambda text: None
    return plugin.Bench()


def scale() -> Callable[[], None]:
    """Encode the messages of an event."""
    pod, container = make_pod(), make_container()

    def encode() -> None:
        pod.SerializeToString()
        container.SerializeToString()

    return encode


#: What can be named on the command line.
CASES: dict[str, Callable[[], Callable[[], None]]] = {
    "scale": scale,
    "state": lambda: Runtime(1).state_change,
    "create": lambda: Runtime(1).create,
    "state-10": lambda: Runtime(10).state_change,
    "create-4": lambda: Runtime(4).create,
    "create-10": lambda: Runtime(10).create,
    "unchanged-10": lambda: Runtime(10).create_unchanged,
    "plugin-state": lambda: Plugin().state_change,
    "plugin-create": lambda: Plugin().create,
    "plugin-create-2nd": lambda: Plugin("01").create,
}


def best_us(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Microseconds per event of each case; the rounds are interleaved."""
    best: dict[str, float] = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], timeit.timeit(call, number=EVENTS) / EVENTS * 1e6)
    return best


def instructions(names: list[str], folder: Path) -> dict[str, float]:
    """Thousands of instructions per event of each case. `folder` gets the profiles, for callgrind_annotate."""
    # Each call of getppid begins a new profile; every second one is that of the events of a case.
    argv = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/profile"]
    argv += [sys.executable, "-m", "bench.micro", *names, "--events", str(COUNTED)]
    process = subprocess.run(
        argv, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    if process.returncode:
        sys.exit(f"valgrind: {process.stderr[-500:]}")
    counts = {}
    for n, name in enumerate(names):
        profile = (folder / f"profile.{2 * n + 2}").rename(folder / name)
        total = re.search(r"^(?:totals|summary): (\d+)", profile.read_text(), re.MULTILINE)
        counts[name] = int(total[1]) / COUNTED / 1e3 if total else 0.0
    return counts


def run_counted(calls: dict[str, Callable[[], None]], events: int) -> None:
    """Run each case this many times, once warm, between two calls of getppid."""
    for call in calls.values():
        for _ in range(WARM):
            call()
        os.getppid()
        for _ in range(events):
            call()
        os.getppid()


def profile(call: Callable[[], None]) -> None:
    """Print the functions that take most of the time."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(3000):
        call()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    """Run the selected cases."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(CASES)}; default: all")
    parser.add_argument("--count", metavar="FOLDER", help="instructions, with valgrind; its profiles go to this folder")
    parser.add_argument("--profile", action="store_true", help="profile the cases, too")
    parser.add_argument("--events", type=int, metavar="N", help="only run each case so many times")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}")
    chosen = options.cases or list(CASES)
    if options.count:
        folder = Path(options.count)
        folder.mkdir(parents=True, exist_ok=True)
        for name, thousands in instructions(chosen, folder).items():
            print(f"{name:18} {thousands:9.1f} thousand instructions", flush=True)
        return
    calls = {name: CASES[name]() for name in chosen}
    if options.events:
        run_counted(calls, options.events)
    else:
        for name, us in best_us(calls).items():
            print(f"{name:18} {us:8.1f} us", flush=True)
        if options.profile:
            for call in calls.values():
                profile(call)
    sys.stdout.flush()
    os._exit(0)  # the plugins' sessions wait for an end that does not come


if __name__ == "__main__":
    main()
