"""UpdateContainer events: plugins change the requested resources."""

from __future__ import annotations

from typing import Any

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


def test_an_update_without_changes_by_plugins_stays_as_requested(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", update_container=lambda *_: None))
    requested = m.LinuxResources()
    requested.cpu.shares.value = 12
    reply = nri_runtime.update_container(make_pod(), make_container(id="c"), requested)
    assert reply.resources is requested
    assert not reply.changed


def test_a_plugin_can_change_the_update_of_the_updated_container(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", update_container=lambda pod, container, _: nri.Update(container).set_memory_limit(5)))
    requested = m.LinuxResources()
    requested.cpu.shares.value = 12
    resources = nri_runtime.update_container(make_pod(), make_container(id="c"), requested).resources
    assert (resources.cpu.shares.value, resources.memory.limit.value) == (12, 5)


def test_a_later_plugin_sees_the_update_as_changed_by_an_earlier_one(nri_runtime: FakeRuntime) -> None:
    calls: list[int] = []
    nri_runtime.add(plugin("a", update_container=lambda _, c, __: nri.Update(c).set_cpu_shares(5)), idx="10")
    nri_runtime.add(plugin("b", update_container=lambda _, __, r: calls.append(r.cpu.shares.value)), idx="20")
    nri_runtime.update_container(make_pod(), make_container(), m.LinuxResources())
    assert calls == [5]


def shares(value: int) -> m.LinuxResources:
    resources = m.LinuxResources()
    resources.cpu.shares.value = value
    return resources


def test_the_runtimes_request_counts_for_later_events(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="c", cpu_shares=1))
    nri_runtime.adaptation.update_container(make_pod(), make_container(id="c"), shares(5))
    resources = parts_of(nri_runtime.adaptation).trail.inventory.resources_of("c")
    assert resources is not None
    assert resources.cpu.shares.value == 5


def test_the_reply_message_has_the_requested_container_last_as_in_the_reference(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    both = [nri.Update("c").set_cpu_shares(7), nri.Update("other").set_cpu_shares(9)]
    nri_runtime.add(plugin("a", update_container=lambda *_: [*both, nri.Eviction("other", "why")]))
    reply = nri_runtime.adaptation.update_container(make_pod(), make_container(id="c"), shares(5))
    assert [update.container_id for update in reply.message.update] == ["other", "c"]
    assert [update.container_id for update in reply.updates] == ["other"]
    assert [(update.container_id, update.reason) for update in reply.evictions] == [("other", "why")]
    assert (reply.changed, reply.resources.cpu.shares.value) == (True, 7)


def test_an_update_of_a_meanwhile_created_container_comes_before_the_requested_one(
    nri_runtime: FakeRuntime,
) -> None:
    inventory = parts_of(nri_runtime.adaptation).trail.inventory
    inventory.creating("soon", "default")

    def creates(*_: Any) -> None:
        inventory.created("soon", make_pod(), b"")

    both = [nri.Update("c").set_cpu_shares(7), nri.Update("soon").set_cpu_shares(9)]
    nri_runtime.add(plugin("a", update_container=lambda *_: both), idx="10")
    nri_runtime.add(plugin("b", update_container=creates), idx="20")
    reply = nri_runtime.adaptation.update_container(make_pod(), make_container(id="c"), shares(5))
    assert [update.container_id for update in reply.message.update] == ["soon", "c"]
    assert [update.container_id for update in reply.updates] == ["soon"]


def test_an_update_without_receivers_has_a_number_even_without_provenance() -> None:
    with FakeRuntime(provenance=False) as runtime:
        runtime.create_container(make_pod(), make_container(id="c"))
        resources = m.LinuxResources(cpu=m.LinuxCPU(shares=m.OptionalUInt64(value=7)))
        first = runtime.adaptation.update_container(make_pod(), make_container(id="c"), resources)
        second = runtime.adaptation.update_container(make_pod(), make_container(id="c"), resources)
        assert first.numbers.number("cpu.shares") < second.numbers.number("cpu.shares")
