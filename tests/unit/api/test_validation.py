"""The request of a validator."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod

MESSAGE = m.ValidateContainerAdjustmentRequest(
    pod=m.PodSandbox(name="web", namespace="default"),
    container=m.Container(id="c1", name="app"),
    adjust=nri.Adjustment().add_mount("/data", "/srv", options=["bind"]).message,
    update=[nri.Update("c2").set_cpu_shares(5).message],
    plugins=[m.PluginInstance(index="10", name="a")],
)
MESSAGE.owners.owners["c1"].compound[m.Field.Mounts].owners["/data"] = "10-a"
MESSAGE.owners.owners["c1"].simple[m.Field.CPUShares] = "20-b"
MESSAGE.owners.owners["c2"].simple[m.Field.CPUShares] = "10-a"


def test_a_request_has_the_fields_of_the_message() -> None:
    request = nri.ValidationRequest(MESSAGE)
    for field in MESSAGE.DESCRIPTOR.fields:
        assert getattr(request, field.name) == getattr(MESSAGE, field.name)
    assert nri.Adjustment.of(request.adjust).mounts["/data"].source == "/srv"


def test_a_request_returns_the_owner_of_a_field() -> None:
    request = nri.ValidationRequest(MESSAGE)
    assert request.owner("Mounts", "/data") == "10-a"
    assert request.owner("Mounts", "/other") is None
    assert request.owner("CPUShares") == "20-b"
    assert request.owner("CPUShares", container_id="c2") == "10-a"
    with pytest.raises(ValueError, match="unknown field 'Mount'"):
        request.owner("Mount", "/data")


def test_requests_can_be_compared_and_printed() -> None:
    assert nri.ValidationRequest(MESSAGE) == nri.ValidationRequest(MESSAGE)
    assert nri.ValidationRequest(MESSAGE) != nri.ValidationRequest(m.ValidateContainerAdjustmentRequest())
    assert nri.ValidationRequest(MESSAGE) != MESSAGE
    assert repr(nri.ValidationRequest(MESSAGE)) == "ValidationRequest(pod=default/web, container=app)"


class Mounts(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_mount("/data", "/srv", "bind", ["bind"])


class OnlyTen(nri.Plugin):
    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        for path in nri.Adjustment.of(request.adjust).mounts:
            if request.owner("Mounts", path) != "10-mounts":
                raise nri.Reject(f"{path} is not for {request.owner('Mounts', path)} to mount")


def test_validators_and_tests_query_owners_in_the_same_way(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(OnlyTen(), idx="90").add(Mounts(), idx="10")
    reply = nri_runtime.create_container(make_pod(), make_container())
    assert reply.owner("Mounts", "/data") == "10-mounts"
    assert reply.owner("Mounts", "/other") is None
    nri_runtime.disconnect("10-mounts").add(Mounts(), idx="20")
    with pytest.raises(nri.ValidationRejected, match="/data is not for 20-mounts to mount"):
        nri_runtime.create_container()
