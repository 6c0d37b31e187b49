"""The table for users of the Go library is complete and correct."""

from __future__ import annotations

import importlib

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.resources import Resources
from nri.api.builders.update import Update
from tests.unit.api.builders.setters import ADJUSTMENT_CALLS, RESOURCE_CALLS
from tools import go_names


def test_the_table_has_exactly_our_setters() -> None:
    def setters(*classes: type) -> set[str]:
        names = {name for one in classes for name in vars(one)}
        return {name for name in names if name.startswith(("add_", "set_", "remove_", "update_"))}

    resources = {python for _, python, _ in go_names.RESOURCES}
    adjustment = {python for _, python, _ in go_names.ADJUSTMENT}
    update = {python for _, python, _ in go_names.UPDATE}
    python_only = set(go_names.PYTHON_ONLY)
    assert setters(Resources) - python_only == resources
    assert setters(Adjustment) - python_only == adjustment
    assert setters(Update) == update
    assert resources == set(RESOURCE_CALLS)
    assert adjustment == set(ADJUSTMENT_CALLS)


def test_our_names_are_the_go_names_without_linux() -> None:
    def squash(name: str) -> str:
        return name.replace("_", "").lower()

    odd = {
        go
        for go, python, _ in go_names.RESOURCES + go_names.ADJUSTMENT + go_names.UPDATE
        if squash(go.replace("Linux", "")) != squash(python)
    }
    assert odd == {"SetLinuxPidLimits", "AddOrReplaceNamespace"}


def test_every_function_of_the_go_table_exists() -> None:
    for _, python, _ in go_names.FUNCTIONS:
        parts = python.split(".")
        target = importlib.import_module(".".join(parts[:3]))
        for part in parts[3:]:
            target = getattr(target, part)
        assert callable(target), python
