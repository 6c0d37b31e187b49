"""The table of events and event masks."""

import pickle

import pytest

from nri.api import messages as m
from nri.api.events import ALL, BY_METHOD, BY_NUMBER, BY_RPC, EVENTS, OLD, EventMask
from nri.api.pb.api_pb2 import DESCRIPTOR


def test_every_event_of_the_api_has_a_row_with_its_number() -> None:
    rows = {spec.name: spec.number for spec in EVENTS}
    assert rows == {name: number for name, number in m.Event.items() if name not in ("UNKNOWN", "LAST")}
    assert [spec.number for spec in EVENTS] == sorted(rows.values())


@pytest.mark.parametrize("spec", EVENTS, ids=lambda spec: spec.rpc)
def test_a_row_has_the_method_of_the_plugin_service(spec) -> None:
    call = DESCRIPTOR.services_by_name["Plugin"].methods_by_name[spec.rpc]
    assert (call.input_type.name, call.output_type.name) == (spec.request, spec.reply)
    assert BY_METHOD[spec.method] is BY_RPC[spec.rpc] is BY_NUMBER[spec.number] is spec


def test_nine_events_are_relayed_to_old_peers() -> None:
    own_entry = {spec.rpc for spec in EVENTS if not spec.relayed}
    assert own_entry == {
        "CreateContainer",
        "UpdateContainer",
        "StopContainer",
        "UpdatePodSandbox",
        "ValidateContainerAdjustment",
    }


def test_the_predefined_masks_have_the_protocols_values() -> None:
    assert EventMask.ALL == ALL == 0x3FFF
    assert EventMask.OLD == OLD == 0x7FF


@pytest.mark.parametrize(
    ("texts", "mask"),
    [
        (["all"], 0x3FFF),
        (["pod"], 0x1807),
        (["podsandbox"], 0x1807),
        (["container"], 0x27F8),
        (["pod,container"], 0x3FFF),
        (["pod, container"], 0x3FFF),
        (["RunPodSandbox"], 0x1),
        (["runpodsandbox", "CREATECONTAINER"], 0x9),
        (["create_container", "POST_START_CONTAINER"], 0x48),
        ([], 0),
    ],
)
def test_a_subscription_is_parsed_from_text(texts: list[str], mask: int) -> None:
    assert EventMask.parse(*texts) == mask


@pytest.mark.parametrize("text", ["", "pod,", "poststart", "unknown", "CreateContainers"])
def test_an_unknown_event_in_a_subscription_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match='unknown event "') as error:
        EventMask.parse(text)
    assert f'"{text.rsplit(",", maxsplit=1)[-1]}"' in str(error.value)


def test_a_mask_is_shown_as_ordered_names_and_unknown_bits() -> None:
    assert str(EventMask.of("create_container", 1)) == "RunPodSandbox,CreateContainer"
    assert str(EventMask(0x4001)) == "RunPodSandbox,unknown(0x4000)"
    assert str(EventMask(0)) == ""
    assert EventMask(0x4001).unknown == 0x4000


def test_masks_are_sets() -> None:
    create, start = EventMask.of("CreateContainer"), EventMask.of("StartContainer")
    both = create | start
    assert isinstance(both, EventMask)
    assert both - create == start
    assert both & create == create
    assert both ^ create == start
    assert ~create == ALL - create
    assert both.has("create_container")
    assert both.has(6)
    assert not both.has(BY_METHOD["stop_container"])
    assert create.with_events(6) == both
    assert both.without("CreateContainer", 6) == 0
    assert [spec.rpc for spec in both] == ["CreateContainer", "StartContainer"]


def test_negative_masks_and_unknown_events_are_errors() -> None:
    with pytest.raises(ValueError, match="-1"):
        EventMask(-1)
    with pytest.raises(ValueError, match="99"):
        EventMask.of(99)
    with pytest.raises(ValueError, match="create_containr"):
        EventMask.of("create_containr")


def test_a_mask_keeps_its_type_through_pickling() -> None:
    second = pickle.loads(pickle.dumps(OLD))
    assert second == OLD
    assert type(second) is EventMask
