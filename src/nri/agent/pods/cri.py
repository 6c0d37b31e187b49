"""Pods from the CRI of this node's runtime, assembled as API objects.

The CRI reports names, labels, annotations and running containers. Verbose replies may also contain the cgroup and the
resources that the kubelet requested. These do not change, so each pod and container is queried for them once. Init
containers cannot be distinguished from other containers, and ended containers are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from nri.agent.model import PodManifest
from nri.agent.pods.cri_events import CriEvents
from nri.agent.pods.source import KnownPods, PodList, start_time
from nri.agent.pods.verbose_info import ContainerInfo, PodInfo, container_info, pod_info
from nri.agent.worker import Worker
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

#: Labels that the kubelet adds for itself; all other labels are the pod's.
_KUBELETS = ("io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid")
_RUNNING = {pb.CONTAINER_CREATED: "waiting", pb.CONTAINER_RUNNING: "running"}
_EVENT = "event"
#: The Kubernetes QoS class of a pod for which the runtime reports no details.
_UNKNOWN = "Unknown"
#: The time in seconds after an event in which further events are gathered, to list pods only once.
_GATHER_S = 0.05
#: The maximum number of remembered details of pods or containers; a node has a few hundred pods.
_MAX_ANSWERS = 20_000
_Words = TypeVar("_Words", PodInfo, ContainerInfo)


class CriPods(KnownPods):
    """The source of pods that queries the runtime.

    Args:
        settings: `cri_socket` and `pods.interval` are read.

    Raises:
        NriError: grpcio is not installed; raised by `start`.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(PodList())
        self._socket = settings.cri_socket
        self._worker = Worker("pods from the runtime", self._round, settings.pods.interval)
        self._events = CriEvents(self._socket, lambda: self._worker.request_run(_EVENT))
        self._client: CriClient | None = None
        self._runtime = ""
        self._pod_words: dict[str, PodInfo] = {}
        self._container_words: dict[str, ContainerInfo] = {}

    def start(self) -> None:
        """Start to query and to listen for events, in separate threads."""
        self._worker.start()
        self._events.start()

    def stop(self) -> None:
        """Stop querying. Known pods are kept."""
        self._events.stop()
        self._worker.stop()
        self._drop_client()

    def _round(self, reasons: frozenset[str]) -> None:
        if _EVENT in reasons:
            time.sleep(_GATHER_S)  # the start of one pod causes several events
        self.ask()

    def ask(self) -> None:
        """List the pods once. After an error, connect again and ask for the name: the runtime may be another one."""
        try:
            if self._client is None:
                self._client = CriClient(self._socket, option="--set pods.cri=PATH")
                self._runtime = self._client.call("Version", pb.VersionRequest()).runtime_name
            pods = self._pods(self._client)
        except NriError as error:
            self._drop_client()
            self._pod_list.failed(str(error))
            return
        self._pod_list.failed("")
        self._pod_list.replace(pods)

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _pods(self, client: CriClient) -> list[PodManifest]:
        ready = pb.PodSandboxFilter(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))
        sandboxes = client.call("ListPodSandbox", pb.ListPodSandboxRequest(filter=ready)).items
        containers = client.call("ListContainers", pb.ListContainersRequest()).containers
        running = [one for one in containers if one.state in _RUNNING]
        self._query_new_details(client, sandboxes, running)
        latest: dict[str, pb.PodSandbox] = {}
        for sandbox in sandboxes:
            uid = sandbox.metadata.uid
            if sandbox.state == pb.SANDBOX_READY and (uid not in latest or latest[uid].created_at < sandbox.created_at):
                latest[uid] = sandbox
        containers_by_pod: dict[str, dict[str, pb.Container]] = {sandbox.id: {} for sandbox in latest.values()}
        for one in running:
            named = containers_by_pod.get(one.pod_sandbox_id)
            if named is not None:
                other = named.get(one.metadata.name)
                if other is None or other.metadata.attempt < one.metadata.attempt:
                    named[one.metadata.name] = one
        return [self._pod(sandbox, containers_by_pod[sandbox.id].values()) for sandbox in latest.values()]

    def _query_new_details(
        self, client: CriClient, sandboxes: Iterable[pb.PodSandbox], running: Iterable[pb.Container]
    ) -> None:
        """Query the constant data of new pods and containers, and forget removed pods and containers."""
        self._pod_words = _details_by_id(
            self._pod_words,
            [one.id for one in sandboxes],
            lambda object_id: pod_info(
                client.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=object_id, verbose=True))
            ),
        )
        self._container_words = _details_by_id(
            self._container_words,
            [one.id for one in running],
            lambda object_id: container_info(
                client.call("ContainerStatus", pb.ContainerStatusRequest(container_id=object_id, verbose=True))
            ),
        )

    def _pod(self, sandbox: pb.PodSandbox, running: Collection[pb.Container]) -> PodManifest:
        """Return a pod as an API object with the fields that the CRI reports."""
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
            "qosClass": words.qos_class or _class_from_oom_scores(of_containers.values()) or _UNKNOWN,
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


def _class_from_oom_scores(containers: Iterable[ContainerInfo]) -> str:
    """Return the Kubernetes QoS class that follows from the OOM scores of the containers; "" if no score is known."""
    scores = {words.oom_score for words in containers if words.oom_score is not None}
    if not scores:
        return ""
    return "Guaranteed" if max(scores) < 0 else "BestEffort" if min(scores) >= 1000 else "Burstable"


def _details_by_id(
    known_answers: Mapping[str, _Words], ids: Iterable[str], ask: Callable[[str], _Words]
) -> dict[str, _Words]:
    """Return the data of each id, either known data or the result of a query. Failed queries are repeated next time."""
    answers: dict[str, _Words] = {}
    for id_ in ids:
        if id_ in known_answers:
            answers[id_] = known_answers[id_]
        elif len(answers) < _MAX_ANSWERS:
            try:
                answers[id_] = ask(id_)
            except RpcError:
                continue
    return answers
