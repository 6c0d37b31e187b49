"""The lookup of pod and container at the start of every call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.proxy.events.call_context import CallContext
from nri.proxy.hooks import Subject
from tests.support.proxied import Proxied


def context_of(world: Proxied) -> CallContext:
    assert world.proxy is not None
    return world.proxy.exits.context


def test_a_known_container_is_found_with_its_pod(world: Proxied) -> None:
    pod = world.run_pod()
    created_id = world.create(pod)
    record, owner = context_of(world).container(created_id)
    assert record is not None
    assert owner is not None
    assert (record.runtime_id, owner.id) == (created_id, pod)
    facts = context_of(world).facts(record)
    assert facts is not None
    assert facts.status.id == created_id


def test_an_unknown_pod_is_none(world: Proxied) -> None:
    context = context_of(world)
    assert context.pod("nobody") is None
    assert context.pod("") is None
    assert context.container("nobody") == (None, None)
    record, _ = context.container(world.create(world.run_pod()))
    assert record is not None
    record.runtime_id = "nobody"
    assert context.facts(record) is None


def test_a_pod_created_without_the_proxy_is_adopted(world: Proxied) -> None:
    pod = world.run_pod(cri=world.direct)
    actual = context_of(world).pod(pod)
    assert actual is not None
    assert actual.id == pod


def test_without_hook_servers_a_request_is_forwarded_unchanged(world: Proxied) -> None:
    context, request = context_of(world), pb.StopContainerRequest(container_id="a")
    assert context.call_hooks_before("StopContainer", b"as it came", request, Subject(), None) == b"as it came"
    context.call_hooks_after("StopContainer", request, pb.StopContainerResponse(), Subject(), None)


class Servers:
    """Hook servers that change a request and record their calls after it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def before(self, method: str, request: Any, subject: Subject, deadline: float | None) -> None:
        request.container_id = "changed"

    def after(self, method: str, request: Any, response: Any, subject: Subject, deadline: float | None) -> None:
        self.calls.append(method)


def test_hook_servers_change_a_request_and_receive_its_reply(world: Proxied) -> None:
    servers = Servers()
    context = replace(context_of(world), hook_servers=servers)
    request = pb.StopContainerRequest(container_id="a")
    passed = context.call_hooks_before("StopContainer", b"as it came", request, Subject(), None)
    assert pb.StopContainerRequest.FromString(passed).container_id == "changed"
    context.call_hooks_after("StopContainer", request, pb.StopContainerResponse(), Subject(), None)
    assert servers.calls == ["StopContainer"]
