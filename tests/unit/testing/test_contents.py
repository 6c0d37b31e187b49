"""The pods and containers of a test's runtime, and what plugins ask for."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.testing import make_container, make_pod
from nri.testing.contents import Contents


def test_an_update_changes_the_container_and_is_noted() -> None:
    container = make_container(cpu_shares=5)
    contents = Contents(containers=[container])
    update = nri.Update(container).set_cpu_shares(7)
    assert contents._update([update.message]) == []
    assert container.linux.resources.cpu.shares.value == 7
    assert contents.updates == [update]


def test_an_update_that_is_refused_or_of_no_container_fails_and_changes_nothing() -> None:
    container = make_container(cpu_shares=5)
    contents = Contents(containers=[container])
    contents.refuse_updates.add(container.id)
    updates = [nri.Update(container).set_cpu_shares(7).message, nri.Update("nobody").message]
    assert contents._update(updates) == updates
    assert container.linux.resources.cpu.shares.value == 5
    assert contents.updates == []


def test_evictions_are_noted_in_order() -> None:
    contents = Contents()
    contents._evict([m.ContainerEviction(container_id="a"), m.ContainerEviction(container_id="b", reason="c")])
    assert contents.evictions == [nri.Eviction("a"), nri.Eviction("b", "c")]


def test_an_event_without_a_pod_is_of_the_last_pod_and_its_last_container() -> None:
    first, second = make_pod(), make_pod()
    inside = make_container(pod=first)
    contents = Contents([first, second], [inside])
    assert contents._pod(None) is second
    assert contents._container(first, None) is inside
    made = contents._container(second, None)
    assert made.pod_sandbox_id == second.id and contents.containers[made.id] is made


def test_a_pod_that_is_not_known_yet_is_from_now_on() -> None:
    contents, pod = Contents(), make_pod()
    assert contents._pod(pod) is pod and contents.pods == {pod.id: pod}
    made = Contents()._pod(None)
    assert made.id


def test_a_snapshot_is_a_copy_of_the_lists() -> None:
    contents = Contents([make_pod()], [make_container()])
    pods, containers = contents._snapshot()
    pods.clear()
    containers.clear()
    assert (len(contents.pods), len(contents.containers)) == (1, 1)
