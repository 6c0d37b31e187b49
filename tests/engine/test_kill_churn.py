"""SIGKILL to an engine of two domains, again and again, in the middle of whatever lives of pods are at.

Threads start and end pods in both domains, with the same names in each; the engine is killed at a drawn moment and
started again. Who was cut off removes what it finds of its pod and goes on, as a kubelet does. Steady pods run through
all of it; in the end nothing is left of the others, and a plugin is told of the steady ones alone. Five kills; for so
many minutes with `NRI_KILL_MINUTES=15`.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.images import ImageStore
from tests.engine.machine import settled
from tests.real.plugin_process import PluginProcess
from tests.support.needs import need, need_root, need_tool
from tests.support.traces import traces
from tests.support.waiting import wait_for
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.engine import Engine
from tools.runtimes.images import BUSYBOX, image_archive
from tools.runtimes.machine import PATIENCE

MINUTES = float(os.environ.get("NRI_KILL_MINUTES", "0"))
#: Without minutes: so many kills.
KILLS = 5
#: Pods that stay, and threads whose pods come and go, in each domain.
STEADY, THREADS = 4, 2
#: Between an engine that serves and its kill, at most, in seconds.
LONGEST_S = 2.0
BACK_S = 60.0 * PATIENCE
#: A call that a kill cut off: before it came, or on its way.
CUT_OFF = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


@pytest.fixture
def engine() -> Iterator[Engine]:
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    need(Path("/usr/lib/cni/bridge").exists(), "the CNI plugins (containernetworking-plugins)")
    engine_ = Engine(say=lambda _: None)
    engine_.settings.write_text(
        engine_.settings.read_text() + f'\n[domains.moby]\nsocket = "{engine_.run_dir}/moby.sock"\n'
    )
    try:
        engine_.enable_pod_network()
        images = ImageStore(engine_.run_dir / "root/domains/moby/images")
        images.load(f"oci-archive:{image_archive(lambda _: None)}:{BUSYBOX}", BUSYBOX)
        engine_.start()
        yield engine_
    finally:
        engine_.close()


def client(engine: Engine, domain: str) -> Cri:
    """A client of a domain's own; `engine.cri` is gone with a kill."""
    return Cri(engine.run_dir / ("moby.sock" if domain else "cri.sock"), engine.run_dir.name)


def wait_serving(cri: Cri) -> None:
    """Return when a domain of an engine that was started again has an image and answers."""
    until = time.monotonic() + BACK_S
    while not cri.answers():
        assert time.monotonic() < until, "the engine does not answer"


class Lives:
    """Pods of one thread in one domain, one after the other, whatever becomes of the engine meanwhile."""

    def __init__(self, engine: Engine, domain: str, number: int, over: threading.Event) -> None:
        self._engine, self._domain, self._over = engine, domain, over
        self._prefix = f"churn{number}-"
        self._random = random.Random(f"{domain}{number}")
        self._cri = client(engine, domain)
        self.whole = self.cut = 0
        self.wrong: list[str] = []
        self.thread = threading.Thread(target=self._go, name=f"lives-{domain}-{number}", daemon=True)

    def _go(self) -> None:
        try:
            while not self._over.is_set():
                if self._done(self._live):
                    self.whole += 1
                else:
                    self.cut += 1
                    while not self._done(self._clear):
                        pass
            self._cri.close()
        except Exception as error:
            self.wrong.append(f"{self.thread.name}, after {self.whole + self.cut} lives: {error!r}"[:1500])

    def _done(self, work: Callable[[], None]) -> bool:
        """Whether work came to its end; False after a kill, when the engine is back."""
        try:
            work()
        except grpc.RpcError as error:
            if error.code() not in CUT_OFF:
                raise
            self._cri.close()  # its next try to connect may be far away
            self._cri = client(self._engine, self._domain)
            wait_serving(self._cri)
            return False
        return True

    def _live(self) -> None:
        cri, draw = self._cri, self._random
        pod = cri.run_pod(f"{self._prefix}{self.whole + self.cut}", own_network=draw.random() < 0.5)
        for name in ("a", "b")[: draw.randint(1, 2)]:
            command = ("sh", "-c", "sleep 0.1") if draw.random() < 0.3 else ("sleep", "1000000")
            container_id = cri.create(pod, name, command, memory_limit_in_bytes=64 << 20)
            cri.start(container_id)
            if draw.random() < 0.3 and command[0] == "sleep":
                cri.update(container_id, memory_limit_in_bytes=48 << 20)
            if draw.random() < 0.5:
                cri.stop(container_id)
                cri.remove(container_id)
        cri.remove_pod(pod.id)

    def _clear(self) -> None:
        """Remove what is there of the thread's pods."""
        for item in self._cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items:
            if item.metadata.name.startswith(self._prefix):
                self._cri.remove_pod(item.id)


class Steady:
    """The pods of one domain that run through all kills."""

    def __init__(self, engine: Engine, domain: str) -> None:
        self._engine, self._domain = engine, domain
        cri = client(engine, domain)
        self.pods: list[tuple[Pod, str, int]] = []
        for number in range(STEADY):
            pod = cri.run_pod(f"steady-{domain or 'k8s'}-{number}", own_network=number % 2 == 0)
            container_id = cri.run(pod, f"{domain or 'k8s'}{number}")
            self.pods.append((pod, container_id, cri.info(container_id)["pid"]))
        cri.close()

    def check(self) -> None:
        """Each runs, by the process of before, and serves."""
        cri = client(self._engine, self._domain)
        wait_serving(cri)
        for pod, container, pid in self.pods:
            name = pod.config.metadata.name
            status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status
            assert status.state == pb.CONTAINER_RUNNING, f"{name} does not run any more"
            assert cri.info(container)["pid"] == pid, f"{name} is another process"
            assert cri.exec(container, "echo", "here") == "here\n"
        cri.close()

    def remove(self) -> None:
        cri = client(self._engine, self._domain)
        for pod, _, _ in self.pods:
            cri.remove_pod(pod.id)
        assert not cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
        cri.close()


def kill(engine: Engine) -> None:
    """End it, look at what it has said, and start it again."""
    engine.kill()
    text = engine.log.read_text(errors="replace")
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]
    engine.restart()


def synchronized(plugin: PluginProcess) -> list[str] | None:
    """The containers that a plugin was told of at the beginning of its connection; None while it has none."""
    lines = plugin.lines()
    ended = max((place for place, line in enumerate(lines) if line["event"] == "Closed"), default=-1)
    return next((line["containers"] for line in lines[ended + 1 :] if line["event"] == "Synchronize"), None)


@pytest.mark.timeout(max(300, MINUTES * 60 + 600))
def test_pods_outlive_kills_of_their_engine_and_nothing_is_left_of_those_that_were_cut_off(engine: Engine) -> None:
    draw, kills = random.Random(7), 0
    empty = set(traces(engine.run_dir))
    steady = [Steady(engine, domain) for domain in ("", "moby")]
    over = threading.Event()
    lives = [Lives(engine, domain, number, over) for domain in ("", "moby") for number in range(THREADS)]
    with PluginProcess(engine.nri_socket) as plugin:
        for live in lives:
            live.thread.start()
        until = time.monotonic() + 60 * MINUTES
        while kills < KILLS or time.monotonic() < until:
            time.sleep(draw.uniform(0.0, LONGEST_S))
            kill(engine)
            kills += 1
            for live in steady:
                live.check()
            assert not [line for live in lives for line in live.wrong], engine.log.read_text()[-4000:]
        over.set()
        for live in lives:
            live.thread.join(BACK_S * 4)
        assert not [live.thread.name for live in lives if live.thread.is_alive()], "a life hangs"
        wrong = [line for live in lives for line in live.wrong]
        assert not wrong, "\n".join(wrong)
        wait_for(lambda: synchronized(plugin) is not None, "the plugin's return", BACK_S)
        ended = len(plugin.lines("Closed"))
        kill(engine)
        wait_for(lambda: len(plugin.lines("Closed")) > ended, "the end of the plugin's connection", BACK_S)
        wait_for(lambda: synchronized(plugin) is not None, "the plugin's return", BACK_S)
        assert synchronized(plugin) == sorted(f"{domain}{n}" for domain in ("k8s", "moby") for n in range(STEADY))
        for live in steady:
            live.check()
            live.remove()
    leftovers = settled(lambda: sorted({*traces(engine.run_dir)} - empty))
    assert not leftovers, "\n".join(leftovers)
    complete, cut = (sum(getattr(live, name) for live in lives) for name in ("whole", "cut"))
    print(f"\n{kills} kills, {complete} lives whole, {cut} cut off")
