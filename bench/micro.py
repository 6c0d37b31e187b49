"""What an event costs in Python on the runtime's side: `python -m bench.micro [psc|cc|create-4]`, from the checkout.

An `Adaptation` with policy, metrics and provenance on has plugins whose connections are replaced by canned replies, so
there is no socket, no switch between threads and no plugin in the figures. The shortest of many short runs counts; that
is steady on a machine that others use. To compare machines, divide by the line `scale`, which is the cost of encoding
the pod and the container once. With a case: that case alone, and a profile of it.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import socket
import struct
import sys
import threading
import time
import timeit
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bench import plugin
from bench.payload import make_container, make_pod
from nri.adaptation import Adaptation
from nri.adaptation.adaptation import parts_of
from nri.metrics.prometheus import PrometheusObserver
from nri.stub.session.session import Session
from nri.ttrpc.envelope import encode_response
from nri.wire import bytes_field

ROUNDS = 120
EVENTS = 60  # per round
PROFILED = 3000
_HEADER = struct.Struct(">IIBB")


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
        stream_id = self._link.client._next_id - 2
        return [(1, _HEADER.pack(len(self.reply), stream_id, 2, 0) + self.reply)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Bench:
    """A runtime with some plugins that answer at once."""

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
        ours, theirs = socket.socketpair()
        made = plugin.Bench()
        plugin.OPTIONS = SimpleNamespace(index=index)
        plugin.say = lambda text: None
        session = Session(made, theirs, index=index, name="bench")
        threading.Thread(target=session.run, daemon=True).start()
        self.adaptation.connect(ours)
        while sum(row.state == "active" for row in self.adaptation.plugins) <= n:
            time.sleep(0.01)
        plugin.Bench.first = n == 0
        adjustment = made.create_container(self.pod, self.container)
        self.replies.append(encode_response(bytes_field(1, adjustment.message.SerializeToString())))
        endpoint = parts_of(self.adaptation).chain.peers[n].endpoint
        endpoint.link.watch = None
        endpoint.link.transport = Canned(endpoint.link)
        self.transports.append(endpoint.link.transport)

    def scale(self) -> None:
        """Encode what an event carries."""
        self.pod.SerializeToString()
        self.container.SerializeToString()

    def state_change(self) -> None:
        """One PostStartContainer."""
        self.adaptation.post_start_container(self.pod, self.container)

    def create(self) -> None:
        """One CreateContainer."""
        self.adaptation.create_container(self.pod, self.container)

    def answer(self, *, adjust: bool) -> None:
        """From now on plugins answer with their adjustment, or with nothing."""
        for transport, reply in zip(self.transports, self.replies, strict=True):
            transport.reply = reply if adjust else b""


def best_us(bench: Bench, cases: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Microseconds per event of each case; the rounds are interleaved."""
    best: dict[str, float] = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, call in cases.items():
            bench.answer(adjust=name != "psc")
            best[name] = min(best[name], timeit.timeit(call, number=EVENTS) / EVENTS * 1e6)
    return best


def profile(bench: Bench, call: Callable[[], None]) -> None:
    """Where the time goes."""
    bench.answer(adjust=call != bench.state_change)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(PROFILED):
        call()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    """Run what is asked for."""
    wanted = sys.argv[1:]
    if wanted not in ([], ["psc"], ["cc"], ["create-4"]):
        sys.exit("usage: python -m bench.micro [psc|cc|create-4]")
    one = Bench(1)
    cases = {"scale": one.scale, "psc": one.state_change, "cc": one.create}
    if not wanted or wanted == ["create-4"]:
        four = Bench(4)
        four.answer(adjust=True)
        cases["create-4"] = four.create
    if wanted:
        cases = {name: call for name, call in cases.items() if name in ("scale", *wanted)}
    for name, us in best_us(one, cases).items():
        print(f"{name:10} {us:8.1f} us", flush=True)
    if wanted:
        profile(four if wanted == ["create-4"] else one, cases[wanted[0]])
    sys.stdout.flush()
    os._exit(0)  # the plugins' sessions wait for an end that does not come


if __name__ == "__main__":
    main()
