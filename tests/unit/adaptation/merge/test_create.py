"""CreateContainer merges: the requests of later plugins, and the reply to the runtime."""

import pytest

from nri.api import messages as m
from nri.rules import Rules
from tests.unit.adaptation.merge.build import adjusts, as_json, create_state, fold, parse, resources, update


def test_without_plugins_the_adjustment_has_empty_parts() -> None:
    reply = create_state().reply()
    assert as_json(reply.adjust) == {"hooks": {}, "linux": {"resources": {"memory": {}, "cpu": {}}}}
    assert not reply.update


def test_a_plugin_sees_the_guaranteed_parts() -> None:
    assert as_json(create_state().container) == {
        "id": "ctr", "hooks": {}, "linux": {"resources": {"memory": {}, "cpu": {}}},
    }  # fmt: skip


def test_a_plugin_sees_the_changes_of_earlier_ones() -> None:
    state = create_state({"env": ["A=1", "B=2"], "mounts": [{"destination": "/x", "source": "old"}]})
    fold(state, adjusts(env=[{"key": "A", "value": "9"}], mounts=[{"destination": "/x", "source": "new"}]))
    assert list(state.container.env) == ["B=2", "A=9"]
    assert [mount.source for mount in state.container.mounts] == ["new"]


def test_the_request_for_a_plugin_has_the_pod() -> None:
    request = create_state().request
    assert request.pod.id == "pod"
    assert request.container.id == "ctr"


def test_a_removal_and_a_value_in_one_reply_change_the_owner() -> None:
    state = create_state()
    take_over = adjusts(annotations={"-k": "", "k": "b"}, args=["", "b"])
    assert not fold(state, adjusts(annotations={"k": "a"}, args=["a"]), take_over)
    adjust = state.reply().adjust
    assert (dict(adjust.annotations), list(adjust.args)) == ({"k": "b"}, ["b"])
    assert state.ledger.owner("ctr", m.Field.Annotations, "k") == "20-b"


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules(removal_frees_key=False)])
def test_setting_a_removed_key_drops_the_removal_mark(rules: Rules) -> None:
    state = create_state({}, rules)
    removal = adjusts(annotations={"-k": ""}, mounts=[{"destination": "-/x"}], linux={"net_devices": {"-eth0": {}}})
    setting = adjusts(annotations={"k": "b"}, mounts=[{"destination": "/x"}], linux={"net_devices": {"eth0": {}}})
    assert not fold(state, removal, setting)
    adjust = state.reply().adjust
    assert dict(adjust.annotations) == {"k": "b"}
    assert [mount.destination for mount in adjust.mounts] == ["/x"]
    assert list(adjust.linux.net_devices) == ["eth0"]


def test_a_key_set_twice_by_a_plugin_is_added_once_for_later_ones() -> None:
    state = create_state()
    fold(state, adjusts(env=[{"key": "A", "value": "1"}, {"key": "A", "value": "2"}], rlimits=[{"type": "T"}] * 2))
    assert list(state.container.env) == ["A=2"]
    assert len(state.container.rlimits) == 1


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules.REFERENCE])
def test_a_zero_replaces_what_was_requested(rules: Rules) -> None:
    """Zero is a value if its wrapper is present; appended bytes alone would lose it."""
    state = create_state({"linux": {"resources": {"memory": {"limit": {"value": "5"}}}}}, rules)
    fold(state, resources(memory={"limit": {"value": "0"}}))
    memory = state.container.linux.resources.memory
    assert memory.HasField("limit")
    assert memory.limit.value == 0


def test_a_message_is_replaced_as_a_whole() -> None:
    state = create_state({"linux": {"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 4}}})
    fold(state, adjusts(linux={"io_priority": {"class": "IOPRIO_CLASS_RT"}}))
    assert as_json(state.container.linux.io_priority) == {"class": "IOPRIO_CLASS_RT"}


def test_an_addition_is_a_step_of_appended_bytes() -> None:
    state = create_state({"env": ["PATH=/bin"]})
    fold(state, adjusts(env=[{"key": "NEW", "value": "1"}]))
    (step,) = state.steps()
    assert step is not None
    assert list(m.Container.FromString(step).env) == ["NEW=1"]


def test_a_replacement_is_a_step_that_is_encoded_again() -> None:
    state = create_state({"env": ["PATH=/bin"]})
    fold(state, adjusts(env=[{"key": "PATH", "value": "/sbin"}]))
    assert state.steps() == [None]
    assert m.Container.FromString(state.encoded_base()) == state.container


def test_hooks_have_all_their_plugins_as_owners() -> None:
    state = create_state()
    hook = adjusts(hooks={"poststop": [{"path": "/h"}]})
    fold(state, hook, hook)
    assert state.ledger.owner("ctr", m.Field.OciHooks) == "10-a,20-b"
    assert len(state.reply().adjust.hooks.poststop) == 2


def test_empty_hooks_have_no_owner() -> None:
    state = create_state()
    fold(state, adjusts(hooks={}))
    assert not state.owners().owners


def test_an_unknown_field_does_not_reach_the_runtime_without_an_owner() -> None:
    state = create_state()
    newer = parse({"adjust": {"args": ["x"]}}, m.CreateContainerResponse())
    newer.adjust.MergeFromString(b"\xfa\x01\x01x")  # field 31, which nobody knows
    state.apply("10-a", newer)
    assert state.reply().adjust.SerializeToString().count(b"\xfa\x01") == 0


def test_updates_of_other_containers_keep_the_order_of_first_mention() -> None:
    state = create_state()
    some = {"cpu": {"shares": {"value": "5"}}}
    more = {"memory": {"limit": {"value": "5"}}}
    fold(state, {"update": [update("b", **some), update("a", **some)]}, {"update": [update("b", **more)]})
    merged = state.reply().update
    assert [entry.container_id for entry in merged] == ["b", "a"]
    assert merged[0].linux.resources.memory.limit.value == 5


def test_updating_the_container_in_creation_is_an_error_with_the_references_text() -> None:
    assert fold(create_state(), {"update": [update("ctr")]}) == 'plugin "10-a" asked update of "ctr" during creation'


def test_a_reply_with_a_failing_update_leaves_no_adjustment() -> None:
    state = create_state()
    reply = adjusts(args=["x"])
    reply.update.add(container_id="ctr")
    assert "during creation" in fold(state, reply)
    assert not state.reply().adjust.args
    assert not fold(state, adjusts(args=["y"])), "the claim of the refused reply was not rolled back"
