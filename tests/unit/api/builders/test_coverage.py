"""Every field that a plugin can set has a setter, and every optional resource has a reader."""

import json
from pathlib import Path

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from tests.unit.api.builders.setters import ADJUSTMENT_CALLS, DEVICE_RULE, RESOURCE_CALLS, UPDATE_CALLS

TABLE = json.loads((Path(__file__).parents[3] / "data" / "nri-api-fields.json").read_text())
FIELDS = {message["name"]: message["fields"] for message in TABLE["messages"]}


def leaves(message: str, prefix: str = "") -> set[str]:
    """Path of every field below a message, by the table."""
    matches: set[str] = set()
    for field in FIELDS[message]:
        path = f"{prefix}{field['name']}"
        kind = field["type"].removeprefix("map<string,").removesuffix(">")
        matches |= leaves(kind, path + ".") if kind in FIELDS else {path}
    return matches


def set_leaves(message, prefix: str = "") -> set[str]:
    """Path of every field below a message that has a value."""
    matches: set[str] = set()
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if hasattr(value, "items"):
            parts = list(value.values())
        elif hasattr(value, "extend"):
            parts = list(value)
        else:
            parts = [value]
        for part in parts:
            matches |= set_leaves(part, path + ".") if hasattr(part, "ListFields") else {path}
    return matches


def apply(builder, calls: dict[str, tuple]) -> None:
    for name, arguments in calls.items():
        assert getattr(builder, name)(*arguments) is builder, f"{name} must return the builder"


def test_every_field_of_an_adjustment_has_a_setter() -> None:
    adjustment = Adjustment()
    apply(adjustment, RESOURCE_CALLS | ADJUSTMENT_CALLS)
    adjustment.add_device_rule(*DEVICE_RULE, major=1, minor=2)
    for stage in m.Hooks.DESCRIPTOR.fields_by_name:
        adjustment.add_hook(stage, "/h", ["h"], ["A=b"], timeout_s=1)
    assert set_leaves(adjustment.message) == leaves("ContainerAdjustment")


def test_every_field_of_an_update_has_a_setter() -> None:
    update = Update("c")
    apply(update, RESOURCE_CALLS | UPDATE_CALLS)
    update.add_device_rule(*DEVICE_RULE, major=1, minor=2)
    assert set_leaves(update.message) == leaves("ContainerUpdate")
