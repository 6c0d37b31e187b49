"""A plugin without a runtime."""

from __future__ import annotations

import nri
from tests.unit.stub.plugins import CONTAINER, POD


def test_a_handler_can_be_called_without_a_runtime() -> None:
    class Names(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("POD", pod.name)

    assert Names().create_container(POD, CONTAINER).env == {"POD": "web"}


def test_a_name_of_its_own_is_kept_and_not_inherited_by_accident() -> None:
    class Base(nri.Plugin):
        name = "special"

    class Derived(Base): ...

    assert (Base.name, Derived.name) == ("special", "derived")
