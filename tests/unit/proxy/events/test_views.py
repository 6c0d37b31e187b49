"""Containers as plugins see them: from the request before creation, then from the runtime's reply."""

from __future__ import annotations

from typing import Any

import pytest

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.proxy.events.runtime_queries import ContainerFacts, PodFacts
from nri.proxy.events.views import RUNTIME_ID, created_container, pod_shown, requested_container
from nri.proxy.state import ContainerRecord


def record(runtime_id: str = "") -> ContainerRecord:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), command=["sleep"])
    config.linux.resources.cpu_shares = 512
    return ContainerRecord("proxy1", runtime_id, "pod", config)


def facts(spec: Any) -> ContainerFacts:
    return ContainerFacts(
        pb.ContainerStatus(id="runtime1", state=pb.CONTAINER_RUNNING), record().config, spec, 7, "pod"
    )


def test_before_creation_a_container_is_shown_by_its_request() -> None:
    shown = requested_container(record())
    assert (shown.id, shown.name, list(shown.args)) == ("proxy1", "c", ["sleep"])
    assert shown.state == m.ContainerState.CONTAINER_UNKNOWN
    assert shown.linux.resources.cpu.shares.value == 512


def test_a_container_is_shown_without_a_reply_of_the_runtime() -> None:
    shown = created_container(record("runtime1"), None)
    assert shown.state == m.ContainerState.CONTAINER_CREATED
    assert shown.annotations[RUNTIME_ID] == "runtime1"


def test_the_runtimes_reply_counts_with_the_current_resources() -> None:
    recorded = record("runtime1")
    recorded.resources.cpu_quota = 7000
    spec = {"process": {"args": ["own"]}, "linux": {"resources": {"cpu": {"quota": 1}}}}
    shown = created_container(recorded, facts(spec))
    assert (shown.id, list(shown.args), shown.pid) == ("proxy1", ["own"], 7)
    assert shown.linux.resources.cpu.quota.value == 7000


@pytest.mark.parametrize("spec", [{}, {"process": 7}, {"linux": []}, {"mounts": [None]}])
def test_a_container_with_an_invalid_spec_is_shown_by_its_request(spec: Any) -> None:
    shown = created_container(record("proxy1"), facts(spec))
    assert shown.id == "proxy1"
    assert RUNTIME_ID not in shown.annotations


@pytest.mark.parametrize("linux", [{}, {"namespaces": 7}, {"cgroupsPath": "/a", "namespaces": []}])
def test_a_pod_is_shown_with_any_spec(linux: dict[str, Any]) -> None:
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="p", uid="u"))
    status = pb.PodSandboxStatus(id="pod", metadata=config.metadata)
    assert pod_shown(PodFacts(status, config, {"linux": linux}, 7), config).id == "pod"
