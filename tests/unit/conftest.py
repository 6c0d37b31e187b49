"""What units share: runtimes that have patience with plugins, so that a busy machine makes none of them late."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.testing import FakeRuntime
from tests.support.scripted_listener import Listener
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.waiting import PATIENCE_S

#: A test of what is late gives its own, shorter time.


@pytest.fixture(autouse=True, scope="session")
def _patient_runtimes() -> Iterator[None]:
    """Give plugins of `FakeRuntime` longer than the two seconds of a real runtime, unless a test says how long."""
    make = FakeRuntime.__init__

    def make_patient(self: FakeRuntime, **options: Any) -> None:
        make(self, **{"request_timeout_s": PATIENCE_S, **options})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeRuntime, "__init__", make_patient)
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="nri-cli-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def listen(folder: Path) -> Iterator[Callable[[Callable[[ScriptedRuntime], None]], str]]:
    """Start a scripted runtime; gives the path of its socket."""
    listeners: list[Listener] = []

    def start(script: Callable[[ScriptedRuntime], None]) -> str:
        listeners.append(Listener(folder / f"{len(listeners)}.sock", script))
        return str(listeners[-1].path)

    yield start
    for listener in listeners:
        listener.close()
