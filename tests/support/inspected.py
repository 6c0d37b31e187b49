"""A node for the page of `nri inspect`: plugins that fight, drift, an agent, CPUs that are placed; every text attacks.

Real parts but for the agent, whose answers are made up here: a runtime with both sockets, a tree of cgroups, the
document of a policy for placement. `work` has things happen, `busy` many of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import nri
from nri.adaptation.admin_client import AdminClient
from nri.errors import ConflictError, PluginRejected
from nri.inspector.node_parts import NodeParts
from nri.inspector.sources import Running
from nri.placement.policy import document
from nri.service.http import Answer, Server, json_answer
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.live_events import live_events
from nri.trace.recorder import Recorder
from tests.support.made_plugins import plugin
from tests.support.placement import container, topology_aware

#: Breaks out of text, of an attribute and of a script, where it is let: then the title says so.
ATTACK = "\"'></script><img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
#: The id of a container that a plugin refuses, as long as those of runtimes.
REFUSED_ID = "c3" * 32
_CGROUPS = "kubepods/podx"
_LIMIT = 64 << 20


def _first(_: Any, container: nri.Container, attack: str) -> nri.Adjustment:
    adjustment = nri.Adjustment().add_env("A", attack or "1")
    if container.name.startswith("app"):
        adjustment.set_memory_limit(_LIMIT).add_annotation(f"note{attack}", attack or "on")
    return adjustment


def _second(_: Any, container: nri.Container, attack: str) -> nri.Adjustment | None:
    if "bad" in container.name:
        raise nri.Reject(f"not this one {attack}".strip())
    return nri.Adjustment().add_env("A", "2") if "fight" in container.name else None


class Inspected:
    """The node, below a folder. `attack`: what is put into each name, annotation and error."""

    def __init__(self, folder: Path, attack: str = ATTACK) -> None:
        self.folder, self.attack = folder, attack
        self.admin, self.root = str(folder / "admin.sock"), folder / "root"
        self._stack = ExitStack()
        recorder = self._stack.enter_context(Recorder(folder / "traces", redact=False))
        more: dict[str, Any] = {"socket_path": str(folder / "nri.sock"), "disable_connections": False}
        self.runtime = self._stack.enter_context(FakeRuntime(admin_socket=self.admin, reporters=[recorder], **more))
        for index, name, answer in (("10", "sets", _first), ("20", "other", _second)):
            handlers = {"create_container": lambda pod, created, answer=answer: answer(pod, created, attack)}
            if name == "sets":
                handlers["start_container"] = lambda *_: None
            self.runtime.add(plugin(name, **handlers), index)
        self.pod = make_pod(name=f"web{attack}", namespace="shop")
        self._files()
        for name, handler in (("agent", self._explain), ("topology-aware", self._placed)):
            path = "/explain" if name == "agent" else "/show"
            server = Server({path: handler}, path=str(folder / f"{name}.sock"))
            self._stack.enter_context(contextlib.closing(server))

    def _files(self) -> None:
        mounts = self.root / "proc/self"
        mounts.mkdir(parents=True)
        (mounts / "mountinfo").write_text(
            "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        )
        path = self.limit_file("c1")
        path.parent.mkdir(parents=True)
        path.write_text(f"{70 << 20}\n")

    def limit_file(self, container_id: str) -> Path:
        """The file of a container's memory limit, on cgroup v1."""
        return self.root / "sys/fs/cgroup/memory" / _CGROUPS / container_id / "memory.limit_in_bytes"

    def _explain(self, argument: Any) -> Answer:
        pod = {"key": "u1", "namespace": "shop", "name": self.pod.name, "ended": False}
        if not argument:
            return json_answer({"pods": [pod]})
        if argument["pod"] != "u1":
            return json_answer({"error": "unknown"}, 404)
        word = self.attack or "set by the pod's annotation"
        value = {"container": "app", "field": "cpu.shares", "value": "512", "hook": "cpu-normalization", "reason": word,
                 "stage": "PreCreateContainer", "transport": "nri", "at": 1.7e9}  # fmt: skip
        no_file = f"no such file {self.attack}".strip()
        write = {"target": "kubepods/podu1", "name": "cpu.bvt_warp_ns", "wanted": "2", "outcome": "unsupported",
                 "reason": no_file, "transport": "nri", "container": "", "at": 1.7e9}  # fmt: skip
        error = {
            "hook": "group-identity",
            "reason": word,
            "stage": "",
            "transport": "nri",
            "container": "",
            "at": 1.7e9,
        }
        about = {"of": "BE", "keys": [], "values": [value], "writes": [write], "errors": [error], "notes": [word]}
        return json_answer({**pod, **about, "rule_problems": [], "strategies": []})

    def _placed(self, _: Any) -> Answer:
        policy = topology_aware()
        for name, cpu_m in (("app", 2000), ("db", 1000), ("cache", 0), ("batch", 0)):
            policy.create(container(f"{name}{self.attack}", cpu_m, 1 << 28))
        return json_answer(document(policy) | {"squeezed": [f"default/late/late{self.attack}: root lacks 500m CPU"]})

    def work(self, container_id: str = "c1") -> None:
        """Create a container, one that two plugins fight over, and one that is refused."""
        app = make_container(id=container_id, name=f"app{self.attack}", pod=self.pod, env={"A": "0"})
        app.linux.cgroups_path = f"/{_CGROUPS}/{container_id}"
        self.runtime.create_container(self.pod, app)
        for ident, name, failure in (("c2", "fight", ConflictError), (REFUSED_ID, "bad", PluginRejected)):
            with contextlib.suppress(failure):
                self.runtime.create_container(self.pod, make_container(id=ident, name=name))

    @contextlib.contextmanager
    def busy(self, per_second: float, highest: int) -> Iterator[Callable[[], int]]:
        """Have containers start, so many a second and in all, while the block lasts; gives how many have by now."""
        over, finished = threading.Event(), [0]
        container = make_container(id="c9", name="busy")

        def work() -> None:
            begun = time.monotonic()
            while finished[0] < highest and not over.wait(
                max(0.0, begun + finished[0] / per_second - time.monotonic())
            ):
                self.runtime.start_container(self.pod, container)
                finished[0] += 1

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield lambda: finished[0]
        finally:
            over.set()
            thread.join()

    @contextlib.contextmanager
    def source(self) -> Iterator[Running]:
        """What `nri inspect` shows of it."""
        client, agent = AdminClient(self.admin), str(self.folder / "agent.sock")
        parts = NodeParts(client, str(self.folder / "nri.sock"), agent, str(self.folder), str(self.root))
        with live_events(client) as live, parts:
            yield Running(live, client.ask, "this node", parts.views())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
