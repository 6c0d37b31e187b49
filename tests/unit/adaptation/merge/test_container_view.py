"""The container that later plugins see: with earlier adjustments, while the runtime's message is unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.merge.container_view import AcceptedAdjustment, ContainerView, normalise
from nri.adaptation.merge.entries import read
from nri.adaptation.merge.fast_path import survey
from nri.api import messages as m
from nri.api.fields import TREE
from nri.rules import Rules
from tests.unit.adaptation.merge.build import adjusts, parse


class View:
    """A view of a container, and what plugins add to it."""

    def __init__(self, rules: Rules = Rules.DEFAULT, **container: Any) -> None:
        self.origin = parse({"id": "ctr", **container}, m.Container())
        self.view = ContainerView(self.origin, rules)

    def add(self, *, fresh: bool = False, **adjust: Any) -> View:
        message = adjusts(**adjust).adjust
        matches = survey(message, "ctr") if fresh else None
        if matches is None:
            self.view.add(AcceptedAdjustment(read(message, TREE), [], message))
        else:
            self.view.add(AcceptedAdjustment(None, matches[0], message, message.SerializeToString()))
        return self

    @property
    def container(self) -> m.Container:
        return self.view.container()

    def replayed(self) -> m.Container:
        """The container as the steps give it to a plugin: the base as it was at the last step that is None."""
        steps = self.view.steps()
        after = max((place for place, step in enumerate(steps) if step is None), default=-1) + 1
        container = m.Container.FromString(self.view.encoded_base())
        normalise(container)
        for step in steps[after:]:
            assert step is not None
            container.MergeFromString(step)
        return container


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("before", "adjust", "appended"),
    [
        ({}, {"env": [{"key": "A", "value": "1"}]}, True),
        ({"env": ["A=0"]}, {"env": [{"key": "A", "value": "1"}]}, False),
        ({"env": ["A=0"]}, {"env": [{"key": "-A"}]}, False),
        ({"env": ["B=A"]}, {"env": [{"key": "A", "value": "1"}]}, True),
        ({"annotations": {"k": "0"}}, {"annotations": {"k": "1"}}, True),
        ({"annotations": {"k": "0"}}, {"annotations": {"-k": ""}}, False),
        ({}, {"annotations": {"-k": ""}}, True),
        ({"mounts": [{"destination": "/a"}]}, {"mounts": [{"destination": "/b"}]}, True),
        ({"mounts": [{"destination": "/a"}]}, {"mounts": [{"destination": "-/a"}]}, False),
        ({}, {"args": ["x"]}, True),
        ({"args": ["x"]}, {"args": ["y"]}, False),
        ({}, {"linux": {"cgroups_path": "/a"}}, True),
        ({"linux": {"io_priority": {"priority": 1}}}, {"linux": {"io_priority": {"priority": 2}}}, False),
        ({}, {"linux": {"rdt": {"remove": True}}}, True),
        ({"linux": {"rdt": {"clos_id": {"value": "a"}}}}, {"linux": {"rdt": {"remove": True}}}, False),
        ({}, {"hooks": {"prestart": [{"path": "/h"}]}}, True),
    ],
)  # fmt: skip
def test_additions_are_appended_bytes_and_other_changes_are_encoded_again(
    before: dict[str, Any], adjust: dict[str, Any], appended: bool, fresh: bool
) -> None:
    view = View(**before).add(fresh=fresh, **adjust)
    assert [step is not None for step in view.view.steps()] == [appended]
    assert view.replayed() == view.container, "plugins that get bytes see something else"


def test_the_runtimes_message_is_not_changed() -> None:
    view = View(env=["A=0"])
    before = view.origin.SerializeToString(deterministic=True)
    _ = view.add(env=[{"key": "-A"}]).add(env=[{"key": "B"}]).container
    assert view.origin.SerializeToString(deterministic=True) == before


def test_an_addition_after_a_replacement_is_appended_to_the_new_base() -> None:
    view = View(env=["A=0"]).add(env=[{"key": "A", "value": "1"}]).add(env=[{"key": "B", "value": "2"}])
    assert [step is not None for step in view.view.steps()] == [False, True]
    assert list(view.container.env) == ["A=1", "B=2"]
    assert view.replayed() == view.container


def test_a_variable_of_an_earlier_plugin_can_be_removed() -> None:
    view = View().add(env=[{"key": "A", "value": "1"}]).add(env=[{"key": "-A"}])
    assert list(view.container.env) == []


def test_reading_the_container_between_adjustments_is_harmless() -> None:
    view = View().add(env=[{"key": "A", "value": "1"}])
    assert list(view.container.env) == ["A=1"]
    assert list(view.add(env=[{"key": "B", "value": "2"}]).container.env) == ["A=1", "B=2"]


def test_a_variable_name_ends_at_its_first_equals_sign() -> None:
    view = View().add(fresh=True, env=[{"key": "A=B", "value": "1"}]).add(fresh=True, env=[{"key": "A", "value": "2"}])
    assert list(view.container.env) == ["A=2"]


def test_removed_arguments_are_restored_to_the_containers_arguments() -> None:
    view = View(args=["own"]).add(args=["", "x"]).add(args=[""])
    assert list(view.container.args) == ["own"]
    view = View(Rules.REFERENCE, args=["own"]).add(args=["", "x"]).add(args=[""])
    assert list(view.container.args) == []


@pytest.mark.parametrize(("rules", "shown"), [(Rules.DEFAULT, "gold"), (Rules(later_plugins_see_all=False), "")])
def test_rdt_is_visible_according_to_the_rules(rules: Rules, shown: str) -> None:
    view = View(rules).add(linux={"rdt": {"clos_id": {"value": "gold"}}})
    assert view.container.linux.rdt.clos_id.value == shown


def test_a_field_outside_the_container_message_adds_no_step() -> None:
    assert View().add(linux={"memory_policy": {"nodes": "0"}}).view.steps() == []


def test_setting_a_namespace_keeps_the_last_of_duplicate_namespaces() -> None:
    namespaces = [{"type": "pid", "path": "/1"}, {"type": "pid", "path": "/2"}]
    view = View(linux={"namespaces": namespaces}).add(linux={"namespaces": [{"type": "ipc", "path": "/3"}]})
    assert [(entry.type, entry.path) for entry in view.container.linux.namespaces] == [
        ("pid", "/2"),
        ("ipc", "/3"),
    ]


def test_encoded_bytes_of_the_runtime_are_reused() -> None:
    origin = m.Container(id="ctr")
    view = ContainerView(origin, Rules.DEFAULT, b"as given")
    assert view.encoded_base() == b"as given"
