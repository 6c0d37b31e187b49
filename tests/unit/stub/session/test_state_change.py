"""How runtimes before 0.12 tell of events."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.stub.session.state_change import unwrap
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


def change(event: int) -> bytes:
    return m.StateChangeEvent(event=event, pod=POD, container=CONTAINER).SerializeToString()


def test_the_payload_becomes_that_of_the_events_own_request() -> None:
    for spec in EVENTS:
        found = unwrap(change(spec.number))
        if not spec.relayed:
            assert found is None, f"{spec.rpc} has a call of its own"
            continue
        assert found is not None and found[0] is spec
        request = getattr(m, spec.request).FromString(found[1])
        assert request.pod == POD
        assert spec.kind == "pod" or request.container == CONTAINER


def test_an_event_that_nobody_knows_is_no_event() -> None:
    assert unwrap(change(0)) is None
    assert unwrap(change(99)) is None


def test_fields_of_later_protocols_are_passed_over() -> None:
    later = b"\xfa\x3f\x03new" + b"\xc0\x3e\x07"
    found = unwrap(later + change(m.Event.RUN_POD_SANDBOX) + later)
    assert found is not None and m.RunPodSandboxRequest.FromString(found[1]).pod == POD
