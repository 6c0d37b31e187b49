"""Pods from the CRI of this node's runtime, put together as API objects.

The CRI knows no pod of the API, but most of what matters of one here: its names, labels and annotations, which of its
containers run, and, where the runtime tells it in its verbose answers, the folder and the resources that the kubelet
has asked for. Those do not change, so each pod and container is asked for them once. It is asked again after a pause,
and at once when the runtime says that a container has begun or ended. Which containers initialize the pod cannot be
told, and what has ended is left out. Next: `nri.agent.pods.verbose_info`, which reads verbose answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from nri.agent.model import PodManifest
from nri.agent.pods.cri_events import CriEvents
from nri.agent.pods.source import Known, KnownPods, start_time
from nri.agent.pods.verbose_info import ContainerInfo, PodInfo, container_info, pod_info
from nri.agent.worker import Worker
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

__all__ = ["CriPods"]

#: Labels by which the kubelet finds its own again; the rest are the pod's.
_KUBELETS = ("io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid")
_RUNNING = {pb.CONTAINER_CREATED: "waiting", pb.CONTAINER_RUNNING: "running"}
_EVENT = "event"
#: The class of a pod that the runtime says nothing of: what is known of its spec is too little to tell it by.
_UNKNOWN = "Unknown"
#: Events that come within this time of one another are one question, in seconds.
_GATHER_S = 0.05
#: At most so many are remembered; a node has a few hundred.
_MOST = 20_000
_Words = TypeVar("_Words", PodInfo, ContainerInfo)


class CriPods(KnownPods):
    """The source of pods that asks the runtime.

    Args:
        settings: `cri_socket` and `pods.interval` are read.

    Raises:
        NriError: grpcio is not installed; told when it starts to ask.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(Known())
        self._socket = settings.cri_socket
        self._worker = Worker("pods of the runtime", self._round, settings.pods.interval)
        self._events = CriEvents(self._socket, lambda: self._worker.poke(_EVENT))
        self._client: CriClient | None = None
        self._runtime = ""
        self._pod_words: dict[str, PodInfo] = {}
        self._container_words: dict[str, ContainerInfo] = {}

    def start(self) -> None:
        """Begin to ask, and to listen for events, in threads of its own."""
        self._worker.start()
        self._events.start()

    def stop(self) -> None:
        """Ask no longer; what is known stays known."""
        self._events.stop()
        self._worker.stop()
        self._forget()

    def _round(self, reasons: frozenset[str]) -> None:
        if _EVENT in reasons:
            time.sleep(_GATHER_S)  # one pod that starts is several events
        self.ask()

    def ask(self) -> None:
        """Ask once. After a failure the connection and the runtime's name are made again: it may be another one."""
        try:
            if self._client is None:
                self._client = CriClient(self._socket, option="--set pods.cri=PATH")
                self._runtime = self._client.call("Version", pb.VersionRequest()).runtime_name
            pods = self._pods(self._client)
        except NriError as error:
            self._forget()
            self._known.failed(str(error))
            return
        self._known.failed("")
        self._known.replace(pods)

    def _forget(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _pods(self, client: CriClient) -> list[PodManifest]:
        ready = pb.PodSandboxFilter(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))
        sandboxes = client.call("ListPodSandbox", pb.ListPodSandboxRequest(filter=ready)).items
        containers = client.call("ListContainers", pb.ListContainersRequest()).containers
        running = [one for one in containers if one.state in _RUNNING]
        self._learn(client, sandboxes, running)
        latest: dict[str, pb.PodSandbox] = {}
        for sandbox in sandboxes:
            uid = sandbox.metadata.uid
            if sandbox.state == pb.SANDBOX_READY and (uid not in latest or latest[uid].created_at < sandbox.created_at):
                latest[uid] = sandbox
        own: dict[str, dict[str, pb.Container]] = {sandbox.id: {} for sandbox in latest.values()}
        for one in running:
            named = own.get(one.pod_sandbox_id)
            if named is not None:
                known = named.get(one.metadata.name)
                if known is None or known.metadata.attempt < one.metadata.attempt:
                    named[one.metadata.name] = one
        return [self._pod(sandbox, own[sandbox.id].values()) for sandbox in latest.values()]

    def _learn(self, client: CriClient, sandboxes: Iterable[pb.PodSandbox], running: Iterable[pb.Container]) -> None:
        """Ask for what does not change, of those that are new; forget what is gone."""
        self._pod_words = _asked(
            self._pod_words,
            [one.id for one in sandboxes],
            lambda each: pod_info(
                client.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=each, verbose=True))
            ),
        )
        self._container_words = _asked(
            self._container_words,
            [one.id for one in running],
            lambda each: container_info(
                client.call("ContainerStatus", pb.ContainerStatusRequest(container_id=each, verbose=True))
            ),
        )

    def _pod(self, sandbox: pb.PodSandbox, running: Collection[pb.Container]) -> PodManifest:
        """One pod as the API would have it, as far as it is known."""
        words = self._pod_words.get(sandbox.id) or PodInfo()
        of_containers = {one.id: self._container_words.get(one.id) or ContainerInfo() for one in running}
        spec: dict[str, Any] = {
            "containers": [{"name": one.metadata.name, **of_containers[one.id].spec} for one in running],
            "hostNetwork": words.host_network,
        }
        if sandbox.runtime_handler:
            spec["runtimeClassName"] = sandbox.runtime_handler
        status = {
            "phase": "Running",
            "startTime": start_time(sandbox.created_at),
            "qosClass": words.qos_class or _guess(of_containers.values()) or _UNKNOWN,
            "containerStatuses": [
                {
                    "name": one.metadata.name,
                    "containerID": f"{self._runtime}://{one.id}",
                    "restartCount": one.metadata.attempt,
                    "state": {_RUNNING[one.state]: {}},
                }
                for one in running
            ],
        }
        pod = {"metadata": _metadata(sandbox), "spec": spec, "status": status}
        return pod | ({"cgroupParent": words.folder} if words.folder else {})


def _metadata(sandbox: pb.PodSandbox) -> dict[str, Any]:
    return {
        "name": sandbox.metadata.name,
        "namespace": sandbox.metadata.namespace,
        "uid": sandbox.metadata.uid,
        "labels": {key: value for key, value in sandbox.labels.items() if key not in _KUBELETS},
        "annotations": dict(sandbox.annotations),
    }


def _guess(containers: Iterable[ContainerInfo]) -> str:
    """The Kubernetes class by the OOM scores that the kubelet gives; "" if they do not say it."""
    scores = {words.oom_score for words in containers if words.oom_score is not None}
    if not scores:
        return ""
    return "Guaranteed" if max(scores) < 0 else "BestEffort" if min(scores) >= 1000 else "Burstable"


def _asked(known: Mapping[str, _Words], ids: Iterable[str], ask: Callable[[str], _Words]) -> dict[str, _Words]:
    """Return what is known of each id, asked for where it is not. Uncertain answers are asked for again."""
    found: dict[str, _Words] = {}
    for each in ids:
        if each in known:
            found[each] = known[each]
        elif len(found) < _MOST:
            try:
                found[each] = ask(each)
            except RpcError:
                continue
    return found
