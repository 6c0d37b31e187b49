"""Plugins for tests of the adaptation: one from a few functions, one that does little; and both modes of a runtime."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

import nri

Mode = Literal["default", "reference"]

#: Runs a test as the default runtime and as the reference's.
both = pytest.mark.parametrize("mode", ["default", "reference"])


def plugin(name: str, **handlers: Any) -> nri.Plugin:
    """A plugin with these handlers, each a function of what the event gives: (pod, container, ...)."""

    def method(function: Any) -> Any:
        return lambda self, *argument: function(*argument)

    methods = {event: method(entry) for event, entry in handlers.items()}
    plugin: nri.Plugin = type("Made", (nri.Plugin,), {"name": name, **methods})()
    return plugin


class Quiet(nri.Plugin):
    """Starts containers without a word, but for one called `bad`, and notes that it was told to shut down."""

    def __init__(self) -> None:
        self.told = threading.Event()

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Fail for `bad`."""
        if container.name == "bad":
            raise ValueError("boom")

    def shutdown(self) -> None:
        """Note it."""
        self.told.set()
