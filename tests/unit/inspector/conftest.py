"""A runtime whose plugins fight and refuse, with an admin socket and a recording of it all; names are attacks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nri
from nri.adaptation.admin import ask, follow
from nri.errors import ConflictError, NriError, PluginRejected
from nri.inspector.sources import Recording, Running
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.live_events import Live
from nri.trace.recorder import Recorder
from tests.support.made_plugins import plugin

#: What breaks out of text, of an attribute and of a script, if it is let.
ATTACK = "</script><img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


class Node(NamedTuple):
    """A runtime, its admin socket, and the folder of its recording."""

    runtime: FakeRuntime
    socket: str
    folder: str

    def work(self) -> None:
        """Create a container, one that two plugins fight over, and one that is refused."""
        pod = make_pod(name=f"web{ATTACK}", namespace="shop")
        app = make_container(id="c1", name="app", env={"A": "0"}, args=["/app"])
        app.image.name = "docker.io/app:1"
        self.runtime.create_container(pod, app)
        with pytest.raises(ConflictError):
            self.runtime.create_container(pod, make_container(id="c2", name="fight"))
        with pytest.raises(PluginRejected):
            self.runtime.create_container(pod, make_container(id="c3", name="bad"))


def _second(_: Any, container: nri.Container) -> nri.Adjustment | None:
    if container.name == "bad":
        raise nri.Reject(f"not this one {ATTACK}")
    return nri.Adjustment().add_env("A", "2") if container.name == "fight" else None


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="nri-inspect-", dir="/tmp") as folder:
        socket, traces = f"{folder}/admin.sock", f"{folder}/traces"
        with (
            Recorder(traces, redact=False) as recorder,
            FakeRuntime(reporters=[recorder], admin_socket=socket) as runtime,
        ):
            runtime.add(plugin("sets", create_container=lambda *_: nri.Adjustment().add_env("A", "1")), "10")
            runtime.add(plugin("other", create_container=_second), "20")
            yield Node(runtime, socket, traces)


@pytest.fixture
def recorded() -> Iterator[str]:
    """A recording that is complete."""
    with tempfile.TemporaryDirectory(prefix="nri-inspect-", dir="/tmp") as folder:
        with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            runtime.add(plugin("sets", create_container=lambda *_: nri.Adjustment().add_env("A", "1")), "10")
            runtime.add(plugin("other", create_container=_second), "20")
            Node(runtime, "", "").work()
        yield folder


@pytest.fixture
def recording(recorded: str) -> Recording:
    recording = Recording(recorded)
    recording.read()
    return recording


@pytest.fixture
def running(node: Node) -> Iterator[Running]:
    def asks(method: str, request: dict[str, Any]) -> dict[str, Any]:
        return ask(node.socket, method, request)

    def follows(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from follow(node.socket, request)

    def part(of: str) -> dict[str, Any] | None:
        if of == "broken":
            raise NriError("it does not answer")
        return {"pods": [{"key": "u1"}]} if not of else {"pod": of} if of == "u1" else None

    with Live(asks, follows) as live:
        node.work()
        yield Running(live, asks, "here", {"agent": part})


@pytest.fixture
def broken(recorded: str) -> str:
    """A recording whose last block is cut."""
    (file,) = Path(recorded).iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    return recorded
