"""The first full view of a node, by id: from the API server, or from the runtime by NRI.

All ways run in the same process. The span starts before the connection is made and ends when every pod and container
can be looked up by id; imports and TLS contexts are made before. Bytes of the API are those of its TCP connection,
both directions, with TLS. Bytes of NRI are counted once, by a relay in front of the runtime's socket, and not while
time is measured.
"""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nri
from bench.studies.cluster import JSON, NODE_PODS, OF_NODE, Place, container_ids, unchecked
from nri.agent.agent import Agent
from nri.agent.settings import AgentSettings
from nri.agent.settings.tables import NriSettings, PodSettings, RuleSettings
from nri.api import messages as m
from nri.kube.client.connection import connect
from nri.kube.client.objects import PODS
from nri.stub.session.session import Session
from tests.kubernetes.kubelet import NODE

#: The ways, in the order of the tables; ratios are to the first.
LISTED = "apiserver: list"
CACHED = "apiserver: list from its cache"
AGAIN = "apiserver: list from its cache, again on the same connection"
BARE = "apiserver: list from its cache, as protobuf, not read"
CLIENT = "apiserver: list by the agent's client"
NRI = "NRI: connect to Synchronize"
READY = "NRI: the same from a runtime that has it ready"
#: The same by the agent itself with rubik's profile, from the start of its informer on.
INFORMER_LIST, INFORMER = "rubik's informer by the apiserver", "rubik's informer by NRI"
CACHE = NODE_PODS + "&resourceVersion=0"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PLUGIN_INDEX = "97"
#: How often it is looked whether an informer is through, in seconds.
_GLANCE_S = 0.0002
#: Each plugin has its own name, because the previous one may still be connected.
_numbers = itertools.count()
#: Offsets of the bytes that were acknowledged and received in Linux's `struct tcp_info`.
_TCP_INFO_SIZE, _TCP_ACKED, _TCP_RECEIVED = 192, 120, 128


class View(NamedTuple):
    """What an agent then knows: pods by uid, and of which pod each container is."""

    pods: Mapping[str, Any]
    containers: Mapping[str, str]


class Sample(NamedTuple):
    """One view: milliseconds, processor milliseconds of this process, bytes on the wire (0: not counted)."""

    ms: float
    cpu_ms: float
    bytes: int
    view: View


Way = Callable[[], Sample]


def listed(items: list[dict[str, Any]]) -> View:
    """A view of a PodList's items."""
    pods = {item["metadata"]["uid"]: item for item in items}
    return View(pods, {container_id: uid for uid, item in pods.items() for container_id in container_ids(item)})


class Lists:
    """Views by an HTTP client of the standard library and JSON."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._tls = unchecked()
        self._kept = self._connection()

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.place.host, self.place.port, timeout=30, context=self._tls)

    def fresh(self, path: str) -> Sample:
        """On its own connection."""
        connection = self._connection()
        try:
            return self._take(connection, path)
        finally:
            connection.close()

    def next_list(self) -> Sample:
        """On a connection that was made before."""
        return self._take(self._kept, CACHE)

    def bare(self) -> Sample:
        """The API's shortest form on its own connection, without decoding: a lower bound, not a view."""
        connection = self._connection()
        try:
            return self._take(connection, CACHE, PROTOBUF)
        finally:
            connection.close()

    def _take(self, connection: http.client.HTTPSConnection, path: str, accept: str = JSON) -> Sample:
        before = _moved(connection) if connection.sock is not None else 0
        began, cpu = time.perf_counter(), time.process_time()
        connection.request("GET", path, headers=self.place.headers(accept))
        answer = connection.getresponse()
        text = answer.read()
        view = listed(json.loads(text)["items"]) if accept == JSON else View({}, {})
        took, used = time.perf_counter() - began, time.process_time() - cpu
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: HTTP {answer.status}")
        return Sample(took * 1e3, used * 1e3, _moved(connection) - before if connection.sock else 0, view)

    def close(self) -> None:
        """Hang up."""
        self._kept.close()


def _moved(connection: http.client.HTTPSConnection) -> int:
    """Bytes that a TCP connection has carried, both ways."""
    tcp_info = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    acked, received = (struct.unpack_from("Q", tcp_info, at)[0] for at in (_TCP_ACKED, _TCP_RECEIVED))
    return int(acked + received)


class _Looker(nri.Plugin):
    """A plugin that takes in what runs, and is done."""

    def __init__(self) -> None:
        self.view = View({}, {})
        self.state = b""
        self.keep = False
        self.at = self.cpu = 0.0
        self.done: Callable[[], None] = lambda: None

    def synchronize(self, pods: Any, containers: Any) -> None:
        """Keep both by their ids."""
        by_sandbox = {pod.id: pod for pod in pods}
        self.view = View(
            {pod.uid: pod for pod in pods},
            {container.id: by_sandbox[container.pod_sandbox_id].uid for container in containers},
        )
        self.at, self.cpu = time.perf_counter(), time.process_time()
        if self.keep:
            self.state = m.SynchronizeRequest(pods=pods, containers=containers).SerializeToString()
        self.done()


def synchronized(path: Path) -> Sample:
    """By NRI: connect, register, be configured, synchronize."""
    plugin = _Looker()
    began, cpu = _look(plugin, path)
    return Sample((plugin.at - began) * 1e3, (plugin.cpu - cpu) * 1e3, 0, plugin.view)


def runtime_state(path: Path) -> bytes:
    """The state that a runtime sends at Synchronize, as one SynchronizeRequest."""
    plugin = _Looker()
    plugin.keep = True
    _look(plugin, path)
    return plugin.state


def _look(plugin: _Looker, path: Path) -> tuple[float, float]:
    """Have a plugin take a view; when that began, and the processor time until then."""
    began, cpu = time.perf_counter(), time.process_time()
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    session = Session(plugin, sock, index=PLUGIN_INDEX, name=f"view{next(_numbers)}")
    plugin.done = session.stop
    session.run()
    return began, cpu


def by_our_client(kubeconfig: Path) -> Sample:
    """The list by the client of this package's agent, on its own connection."""
    with connect(kubeconfig) as server:  # the connection itself is made by the first call
        began, cpu = time.perf_counter(), time.process_time()
        pods, _ = server.list(PODS, OF_NODE["fieldSelector"])
        view = listed([*pods.objects.values()])
        took, used = time.perf_counter() - began, time.process_time() - cpu
    return Sample(took * 1e3, used * 1e3, 0, view)


def informed(socket_path: Path | None, kubeconfig: Path | None = None) -> Sample:
    """By the agent with rubik's profile: from the start of its source of pods until that can be asked for all."""
    settings = AgentSettings(
        profile="rubik",
        modes=("nri",),
        nri=NriSettings(socket=str(socket_path or "/nowhere"), index=PLUGIN_INDEX, name=f"rubik{next(_numbers)}"),
        pods=PodSettings(source="nri" if kubeconfig is None else "apiserver"),
        rules=RuleSettings(kubeconfig=str(kubeconfig or ""), node_name=NODE),
    )
    agent = Agent(settings)
    pods = agent.parts.pods
    parts = [pods, *(agent.transports if kubeconfig is None else ())]
    began, cpu = time.perf_counter(), time.process_time()
    for part in parts:
        part.start()
    while not pods.synced:
        time.sleep(_GLANCE_S)
    view = listed([dict(pod) for pod in pods.pods()])
    took, used = time.perf_counter() - began, time.process_time() - cpu
    for part in reversed(parts):
        part.stop()
    return Sample(took * 1e3, used * 1e3, 0, view)


def relayed(path: Path) -> int:
    """Bytes of one NRI view, both ways, from connect until the plugin has said goodbye."""
    counts: list[int] = []
    with TemporaryDirectory() as folder:
        front = Path(folder, "s")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(front))
        listener.listen(1)

        def relay() -> None:
            client, _ = listener.accept()
            with client, socket.socket(socket.AF_UNIX) as server:
                server.connect(str(path))
                back = threading.Thread(target=lambda: counts.append(_pour(server, client)), daemon=True)
                back.start()
                counts.append(_pour(client, server))
                back.join(5)

        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        synchronized(front)
        thread.join(10)
        listener.close()
    return sum(counts)


def _pour(source: socket.socket, target: socket.socket) -> int:
    """Copy until the end; the number of bytes."""
    count = 0
    try:
        while data := source.recv(1 << 16):
            count += len(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side was faster to hang up
    return count


def same(one: View, other: View) -> bool:
    """Whether both know the same pods and containers."""
    return set(one.pods) == set(other.pods) and dict(one.containers) == dict(other.containers)
