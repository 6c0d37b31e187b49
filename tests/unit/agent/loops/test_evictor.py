"""Evictors: by the apiserver, by the runtime, by nobody."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from nri.agent.loops.evictor import ApiserverEvictor, CriEvictor, NoEvictor, evictor_of
from nri.agent.settings.values import PodSettings, RuleSettings, Settings
from nri.errors import NriError
from tests.unit.agent.transports.standalone.test_pods import pod


def test_the_sources_decide_who_evicts() -> None:
    assert isinstance(evictor_of(Settings(pods=PodSettings(source="apiserver"))), ApiserverEvictor)
    assert isinstance(evictor_of(Settings(rules=RuleSettings(source="apiserver"))), ApiserverEvictor)
    assert isinstance(evictor_of(Settings(pods=PodSettings(source="cri"))), CriEvictor)
    assert isinstance(evictor_of(Settings(pods=PodSettings(source="files"))), NoEvictor)


def test_nobody_evicts_nobody_and_says_so() -> None:
    assert NoEvictor().evict(pod("a"), "memory").startswith("ns/a stays: this agent knows neither")


def test_the_apiserver_is_asked_for_the_pod_by_its_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    class Api:
        def evict(self, namespace: str, name: str, uid: str) -> None:
            asked.append((namespace, name, uid))
            if uid == "b":
                raise NriError("429: a disruption budget forbids it")

    module = ModuleType("nri.kube.client")
    module.connect = lambda kubeconfig: asked.append((kubeconfig,)) or Api()  # type: ignore[attr-defined, func-returns-value]
    monkeypatch.setitem(sys.modules, "nri.kube.client", module)
    evictor = ApiserverEvictor("/k")
    assert evictor.evict(pod("a"), "memory") == ""
    assert evictor.evict(pod("b"), "memory") == "429: a disruption budget forbids it"
    assert asked == [("/k",), ("ns", "a", "a"), ("ns", "b", "b")]
