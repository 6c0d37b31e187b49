"""What a reply says beside its content: which of two replies is the later one."""

from __future__ import annotations

import itertools

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


def update(container_id: str) -> m.ContainerUpdate:
    return m.ContainerUpdate(container_id=container_id)


def test_what_a_plugin_asked_for_later_has_the_greater_number(nri_runtime: FakeRuntime) -> None:
    shares = itertools.count(10)
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    nri_runtime.add(
        plugin(
            "a",
            create_container=lambda *_: (None, [nri.Update("other").set_cpu_shares(next(shares))]),
            stop_container=lambda *_: nri.Update("other").set_cpu_shares(next(shares)),
            update_container=lambda *_: nri.Update("c").set_cpu_shares(next(shares)),
        )
    )
    adaptation, pod, container = nri_runtime.adaptation, make_pod(), make_container(id="c")
    created = adaptation.create_container(pod, container)
    changed = adaptation.update_container(pod, container, m.LinuxResources())
    stopped = adaptation.stop_container(pod, container)
    assert 0 < created.order_of(update("other")) < changed.order_of(update("c")) < stopped.order_of(update("other"))


def test_what_no_plugin_asked_for_has_none(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(plugin("a", create_container=lambda *_: nri.Adjustment().add_env("A", "1")))
    adaptation, pod, container = nri_runtime.adaptation, make_pod(), make_container(id="c")
    assert adaptation.create_container(pod, container).order_of(update("other")) == 0
    assert adaptation.update_container(pod, container, m.LinuxResources()).order_of(update("c")) == 0


def test_of_an_update_by_two_plugins_the_number_is_that_of_the_first(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    nri_runtime.add(plugin("a", stop_container=lambda *_: nri.Update("other").set_cpu_shares(5)), "10")
    nri_runtime.add(plugin("b", stop_container=lambda *_: nri.Update("other").set_cpu_quota(6)), "20")
    both = nri_runtime.adaptation.stop_container(make_pod(), make_container(id="c"))
    nri_runtime.create_container(make_pod(), make_container(id="d"))
    alone = nri_runtime.adaptation.stop_container(make_pod(), make_container(id="d"))
    assert alone.order_of(update("other")) - both.order_of(update("other")) >= 2
