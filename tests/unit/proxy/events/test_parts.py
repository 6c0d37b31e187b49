"""What every call asks first: whose pod and container this is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.proxy.events.parts import Parts
from nri.proxy.hooks import Subject
from tests.support.proxied import Proxied


def parts_of(world: Proxied) -> Parts:
    assert world.proxy is not None
    return world.proxy._exits._parts


def test_what_is_known_is_found_with_its_pod(world: Proxied) -> None:
    pod = world.run_pod()
    made = world.create(pod)
    record, owner = parts_of(world).container(made)
    assert record is not None
    assert owner is not None
    assert (record.runtime_id, owner.id) == (made, pod)
    facts = parts_of(world).facts(record)
    assert facts is not None
    assert facts.status.id == made


def test_what_nobody_knows_is_none(world: Proxied) -> None:
    parts = parts_of(world)
    assert parts.pod("nobody") is None
    assert parts.pod("") is None
    assert parts.container("nobody") == (None, None)
    record, _ = parts.container(world.create(world.run_pod()))
    assert record is not None
    record.runtime_id = "nobody"
    assert parts.facts(record) is None


def test_one_that_was_made_around_the_proxy_is_asked_for(world: Proxied) -> None:
    pod = world.run_pod(cri=world.direct)
    found = parts_of(world).pod(pod)
    assert found is not None
    assert found.id == pod


def test_without_hook_servers_a_request_is_passed_on_as_it_came(world: Proxied) -> None:
    parts, request = parts_of(world), pb.StopContainerRequest(container_id="a")
    assert parts.before("StopContainer", b"as it came", request, Subject(), None) == b"as it came"
    parts.after("StopContainer", request, pb.StopContainerResponse(), Subject(), None)


class Servers:
    """Hook servers that change a request and remember what they were told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def before(self, method: str, request: Any, subject: Subject, deadline: float | None) -> None:
        request.container_id = "changed"

    def after(self, method: str, request: Any, response: Any, subject: Subject, deadline: float | None) -> None:
        self.told.append(method)


def test_hook_servers_change_a_request_and_are_told_of_its_answer(world: Proxied) -> None:
    servers = Servers()
    parts = replace(parts_of(world), hook_servers=servers)
    request = pb.StopContainerRequest(container_id="a")
    passed = parts.before("StopContainer", b"as it came", request, Subject(), None)
    assert pb.StopContainerRequest.FromString(passed).container_id == "changed"
    parts.after("StopContainer", request, pb.StopContainerResponse(), Subject(), None)
    assert servers.told == ["StopContainer"]
