"""Evictors: the apiserver, the runtime or none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest

from nri.agent.loops.evictor import ApiserverEvictor, CriEvictor, NoEvictor, NriEvictor, evictor_of
from nri.agent.pods.nri import NriPods
from nri.agent.settings.values import AgentSettings, PodSettings, RuleSettings
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError
from nri.ttrpc.codes import Code
from tests.support.cri_server import CriServer
from tests.unit.agent.transports.standalone.test_pods import pod


def test_sources_in_the_settings_choose_the_evictor() -> None:
    assert isinstance(evictor_of(AgentSettings(pods=PodSettings(source="apiserver"))), ApiserverEvictor)
    assert isinstance(evictor_of(AgentSettings(rules=RuleSettings(source="apiserver"))), ApiserverEvictor)
    assert isinstance(evictor_of(AgentSettings(pods=PodSettings(source="cri"))), CriEvictor)
    assert isinstance(evictor_of(AgentSettings(pods=PodSettings(source="files"))), NoEvictor)


def test_without_an_evictor_the_reason_is_returned() -> None:
    assert NoEvictor().evict(pod("a"), "memory").startswith("ns/a is not evicted: this agent is connected to neither")


def test_the_apiserver_evicts_the_pod_by_its_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[tuple[str, ...]] = []

    class Api:
        def evict(self, namespace: str, name: str, uid: str) -> None:
            collected.append((namespace, name, uid))
            if uid == "b":
                raise NriError("429: a disruption budget forbids it")

    module = ModuleType("nri.kube.client")
    module.connect = lambda kubeconfig: collected.append((kubeconfig,)) or Api()  # type: ignore[attr-defined, func-returns-value]
    monkeypatch.setitem(sys.modules, "nri.kube.client", module)
    evictor = ApiserverEvictor("/k")
    assert evictor.evict(pod("a"), "memory") == ""
    assert evictor.evict(pod("b"), "memory") == "429: a disruption budget forbids it"
    assert collected == [("/k",), ("ns", "a", "a"), ("ns", "b", "b")]


class Stopping(CriServer):
    """A runtime that stops containers, but for one."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[tuple[str, int]] = []

    def answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        if method != "StopContainer":
            return super().answer(method, request, context)
        self.stopped.append((request.container_id, request.timeout))
        if request.container_id == "stubborn":
            context.abort(grpc.StatusCode.INTERNAL, "it does not stop")
        return pb.StopContainerResponse()


def test_the_runtime_stops_all_containers_in_parallel_and_reports_a_running_one(tmp_path: Path) -> None:
    runtime = Stopping()
    leaving, staying = pod("a"), pod("b")
    statuses = [{"name": name, "containerID": f"containerd://{name}"} for name in ("stubborn", "easy")]
    staying["status"]["containerStatuses"] = [*statuses, {"name": "early", "containerID": ""}]
    with runtime.listening(tmp_path / "cri.sock") as path:
        assert CriEvictor(path).evict(leaving, "memory") == ""
        assert "it does not stop" in CriEvictor(path).evict(staying, "memory")
    assert runtime.stopped == [("ac", 0), ("stubborn", 0), ("easy", 0)]
    assert "cri.sock" in CriEvictor(str(tmp_path / "cri.sock")).evict(leaving, "memory")


class Pods(NriPods):
    """Pods of a runtime with a configured answer to evictions."""

    def __init__(self, answer: Exception | None = None) -> None:
        super().__init__(AgentSettings())
        self.answer, self.asked = answer, list[str]()

    def evict(self, container: str, reason: str) -> None:
        self.asked.append(container)
        if self.answer is not None:
            raise self.answer


class Other:
    """Another evictor, whose answer has its name."""

    def evict(self, pod: Any, reason: str) -> str:
        return f"other: {reason}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, ""),
        (RpcError(Code.UNIMPLEMENTED, "ignored"), "other: memory"),
        (RpcError(Code.INTERNAL, "it does not stop"), "it does not stop"),
        (NriError("not connected"), "not connected"),
    ],
    ids=["done", "ignored", "refused", "not connected"],
)
def test_the_runtime_evicts_pods_from_nri_or_a_fallback_if_evictions_are_ignored(
    answer: Exception | None, message: str
) -> None:
    pods = Pods(answer)
    assert message in NriEvictor(pods, Other()).evict(pod("a"), "memory")
    assert pods.asked == ["ac"]


@pytest.mark.parametrize("cluster", [True, False])
def test_ignored_evictions_go_to_the_apiserver_if_known_and_otherwise_to_the_cri(
    monkeypatch: pytest.MonkeyPatch, cluster: bool
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if cluster:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    actual = evictor_of(AgentSettings(pods=PodSettings(source="nri")), Pods(RpcError(Code.UNIMPLEMENTED, "")))
    assert isinstance(actual, NriEvictor)
    collected: list[str] = []
    for kind in (ApiserverEvictor, CriEvictor):
        monkeypatch.setattr(kind, "evict", lambda self, *_: collected.append(type(self).__name__) or "")
    actual.evict(pod("a"), "memory")
    assert collected == ["ApiserverEvictor" if cluster else "CriEvictor"]
