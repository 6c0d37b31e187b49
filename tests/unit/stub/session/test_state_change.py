"""How runtimes before 0.12 tell of events."""

from __future__ import annotations

import nri
from nri.api import messages as m
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, POD, creates


def test_state_change_reaches_the_same_methods() -> None:
    seen = []

    class Old(nri.Plugin):
        def post_start_container(self, pod, container):
            seen.append((pod.id, container.id))

        def run_pod_sandbox(self, pod):
            seen.append((pod.id,))

    with plugin_thread(Old()) as running:
        running.runtime.begin(nri="")
        for event in ("POST_START_CONTAINER", "RUN_POD_SANDBOX", "REMOVE_CONTAINER"):
            change = m.StateChangeEvent(event=m.Event.Value(event), pod=POD, container=CONTAINER)
            assert not running.runtime.call("StateChange", change).code
    assert seen == [("p0", "c0"), ("p0",)]


def test_create_is_never_taken_from_a_state_change() -> None:
    called = []
    with plugin_thread(creates(lambda: called.append(1))) as running:
        running.runtime.begin()
        running.runtime.call(
            "StateChange", m.StateChangeEvent(event=m.Event.CREATE_CONTAINER, pod=POD, container=CONTAINER)
        )
    assert called == []
