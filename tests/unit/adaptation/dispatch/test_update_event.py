"""UpdateContainer on its way: what plugins make of requested resources."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


def test_an_update_that_no_plugin_touches_stays_as_it_was_requested(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", update_container=lambda *_: None))
    requested = m.LinuxResources()
    requested.cpu.shares.value = 12
    reply = nri_runtime.update_container(make_pod(), make_container(id="c"), requested)
    assert reply.resources is requested
    assert not reply.changed


def test_a_plugin_may_change_the_update_of_the_container_that_is_updated(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", update_container=lambda pod, container, _: nri.Update(container).set_memory_limit(5)))
    requested = m.LinuxResources()
    requested.cpu.shares.value = 12
    resources = nri_runtime.update_container(make_pod(), make_container(id="c"), requested).resources
    assert (resources.cpu.shares.value, resources.memory.limit.value) == (12, 5)


def test_a_later_plugin_sees_what_an_earlier_one_made_of_an_update(nri_runtime: FakeRuntime) -> None:
    seen: list[int] = []
    nri_runtime.add(plugin("a", update_container=lambda _, c, __: nri.Update(c).set_cpu_shares(5)), idx="10")
    nri_runtime.add(plugin("b", update_container=lambda _, __, r: seen.append(r.cpu.shares.value)), idx="20")
    nri_runtime.update_container(make_pod(), make_container(), m.LinuxResources())
    assert seen == [5]
