"""Containers as plugins see them: from the request first, then from what the runtime tells, of whatever form it is."""

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
    return ContainerRecord("ours", runtime_id, "pod", config)


def facts(spec: Any) -> ContainerFacts:
    return ContainerFacts(pb.ContainerStatus(id="theirs", state=pb.CONTAINER_RUNNING), record().config, spec, 7, "pod")


def test_before_it_is_made_a_container_is_what_its_request_says() -> None:
    shown = requested_container(record())
    assert (shown.id, shown.name, list(shown.args)) == ("ours", "c", ["sleep"])
    assert shown.state == m.ContainerState.CONTAINER_UNKNOWN
    assert shown.linux.resources.cpu.shares.value == 512


def test_where_the_runtime_cannot_be_asked_it_is_still_shown() -> None:
    shown = created_container(record("theirs"), None)
    assert shown.state == m.ContainerState.CONTAINER_CREATED
    assert shown.annotations[RUNTIME_ID] == "theirs"


def test_what_the_runtime_tells_counts_and_resources_are_those_in_force() -> None:
    recorded = record("theirs")
    recorded.resources.cpu_quota = 7000
    spec = {"process": {"args": ["own"]}, "linux": {"resources": {"cpu": {"quota": 1}}}}
    shown = created_container(recorded, facts(spec))
    assert (shown.id, list(shown.args), shown.pid) == ("ours", ["own"], 7)
    assert shown.linux.resources.cpu.quota.value == 7000


@pytest.mark.parametrize("spec", [{}, {"process": 7}, {"linux": []}, {"mounts": [None]}])
def test_a_spec_of_no_known_form_gives_way_to_the_request(spec: Any) -> None:
    shown = created_container(record("ours"), facts(spec))
    assert shown.id == "ours"
    assert RUNTIME_ID not in shown.annotations


@pytest.mark.parametrize("linux", [{}, {"namespaces": 7}, {"cgroupsPath": "/a", "namespaces": []}])
def test_a_pod_is_shown_whatever_its_spec_is(linux: dict[str, Any]) -> None:
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="p", uid="u"))
    status = pb.PodSandboxStatus(id="pod", metadata=config.metadata)
    assert pod_shown(PodFacts(status, config, {"linux": linux}, 7), config).id == "pod"
