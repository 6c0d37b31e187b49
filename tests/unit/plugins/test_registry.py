"""Plugins that are registered by name: bundled, of other distributions, and broken."""

from __future__ import annotations

import importlib.metadata
import re
from importlib.metadata import EntryPoint

import pytest

from nri.cli.support.completion import complete_target
from nri.errors import NriError
from nri.plugins import registry


@pytest.fixture
def foreign_plugins(monkeypatch: pytest.MonkeyPatch):
    """Has other distributions register plugins."""

    def add(*pairs: tuple[str, str]) -> None:
        entries = [EntryPoint(name, value, registry.GROUP) for name, value in pairs]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)

    return add


def test_every_bundled_plugin_has_its_registered_name() -> None:
    bundled = [entry for entry in registry.registered() if entry.value.startswith("nri.plugins.")]
    assert "template" in [entry.name for entry in bundled]
    assert [entry.name for entry in bundled if registry.load(entry).name != entry.name] == []


def test_a_plugin_is_found_with_and_without_an_index() -> None:
    assert registry.find("template") is not None
    assert registry.find("10-template") == registry.find("template")
    assert registry.find("10-templ") is None


def test_a_name_of_two_distributions_is_an_error_with_the_modules(foreign_plugins) -> None:
    foreign_plugins(("pin", "a.b:Pin"), ("pin", "c:Pin"))
    with pytest.raises(NriError, match=r"registered under this name\. Choose a plugin: a\.b:Pin, c:Pin"):
        registry.find("pin")


def test_a_plugin_that_cannot_be_loaded_is_an_error_with_the_reason(foreign_plugins) -> None:
    foreign_plugins(("gone", "no.such:Pin"), ("odd", "nri.api.naming:check_index"))
    with pytest.raises(NriError, match=r"gone: no\.such:Pin cannot be loaded: \w+: No module named 'no'"):
        registry.load(registry.find("gone"))
    with pytest.raises(NriError, match=r"odd: nri\.api\.naming:check_index is not a class that inherits"):
        registry.load(registry.find("odd"))


BUNDLED = [entry for entry in registry.registered() if entry.value.startswith("nri.plugins.")]


@pytest.mark.parametrize("entry", BUNDLED, ids=[entry.name for entry in BUNDLED])
def test_every_key_of_every_bundled_plugin_has_a_description(entry: EntryPoint) -> None:
    for key in registry.describe(entry)["configuration"]:
        assert key["meaning"], f"{key['key']} has no meaning"
        words = set(re.findall(r"[\w.]+|[\[(']", key["kind"] + " " + key["default"].removeprefix("[")))
        assert not words & {"None", "True", "False", "tuple", "dict", "Any", "Literal", "str", "int", "[", "(", "'"}, (
            key
        )


def test_a_key_without_a_description_gets_its_flags() -> None:
    rows = {row["key"]: row for row in registry.describe(registry.find("v010-adapter"))["configuration"]}
    assert (rows["conf"]["meaning"], rows["conf"]["default"]) == ("the list of plugins", '"/etc/nri/conf.json"')
    (row,) = registry.describe(registry.find("writable-cgroups"))["configuration"]
    assert row["meaning"] == "the host's mountinfo (default /host/proc/1/mountinfo, or the plugin's own)"


def test_names_are_listed_once_and_in_order(foreign_plugins) -> None:
    foreign_plugins(("pin", "a:Pin"), ("dot", "d:Dot"), ("pin", "c:Pin"))
    assert registry.names() == ["dot", "pin"]


def test_names_are_completed_with_and_without_an_index(foreign_plugins) -> None:
    foreign_plugins(("pin", "a:Pin"), ("dot", "d:Dot"))

    def completed(text: str) -> list[str]:
        return [item.value for item in complete_target(None, None, text) if item.type == "plain"]

    assert (completed("p"), completed("10-"), completed("10-d"), completed("./")) == (
        ["pin"],
        ["10-dot", "10-pin"],
        ["10-dot"],
        [],
    )
