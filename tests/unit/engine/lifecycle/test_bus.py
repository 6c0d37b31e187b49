"""Container events for as many as listen."""

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.bus import _KEPT, EventBus


def test_every_listener_gets_what_comes_after_it_began_and_what_it_is_about() -> None:
    bus = EventBus()
    bus.tell("c0", pb.CONTAINER_CREATED_EVENT, "p")
    bus.describe = lambda event, pod: event.pod_sandbox_status.MergeFrom(pb.PodSandboxStatus(id=pod))
    with bus.subscribe() as one, bus.subscribe() as two:
        bus.tell("c1", pb.CONTAINER_STARTED_EVENT, "p")
        for each in (one, two):
            event = each.get(1)
            assert event is not None
            assert (event.container_id, event.container_event_type) == ("c1", pb.CONTAINER_STARTED_EVENT)
            assert event.pod_sandbox_status.id == "p" and event.created_at > 0
            assert each.get(0) is None


def test_a_listener_that_does_not_keep_up_loses_the_oldest() -> None:
    bus = EventBus()
    listener = bus.subscribe()
    for number in range(_KEPT + 2):
        bus.tell(f"c{number}", pb.CONTAINER_CREATED_EVENT, "p")
    first = listener.get(1)
    assert first is not None and first.container_id == "c2" and listener.lost == 2


def test_the_end_of_the_bus_ends_all_waiting() -> None:
    bus = EventBus()
    listener = bus.subscribe()
    bus.close()
    assert listener.get() is None
