"""What every call asks first: whose pod and container this is."""

from __future__ import annotations

from nri.proxy.events.parts import Parts
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
    from nri.cri.pb import api_pb2 as pb
    from nri.proxy.hooks import Subject

    parts, request = parts_of(world), pb.StopContainerRequest(container_id="a")
    assert parts.before("StopContainer", b"as it came", request, Subject(), None) == b"as it came"
    parts.after("StopContainer", request, pb.StopContainerResponse(), Subject(), None)
