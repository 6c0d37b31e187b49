"""A recording explains a container like the live runtime: changes, refusals, missing answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import nri
from nri.adaptation.admin import ask
from nri.api import messages as m
from nri.errors import ConfigError, NriError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.changes import Changes, container_history
from nri.trace.history import Event, Step, Trace
from nri.trace.recorder import Recorder
from tests.support.made_plugins import plugin

SLOW = """
["30-slow"]
timeout = "300ms"
"""


class Recorded(NamedTuple):
    """Where a runtime was recorded, and the chains that it gave itself, by the container's name."""

    folder: str
    chains: dict[str, dict[str, Any]]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    over = threading.Event()

    def second(_: Any, container: nri.Container) -> nri.Adjustment | None:
        if container.name == "refused":
            raise nri.Reject("no license")
        return nri.Adjustment().add_env("A", "2") if container.name == "fought" else None

    def validate(request: Any) -> None:
        if request.container.name == "invalid":
            raise nri.Reject("not valid here")

    def late(_: Any, container: nri.Container) -> None:
        if container.name == "late":
            over.wait()

    socket, folder = str(tmp_path / "a.sock"), str(tmp_path / "traces")
    chains = {}
    with (
        Recorder(folder, redact=False) as recorder,
        FakeRuntime(reporters=[recorder], admin_socket=socket, policy=SLOW) as runtime,
    ):
        runtime.add(plugin("sets", create_container=lambda *_: nri.Adjustment().add_env("A", "1")), "10")
        runtime.add(plugin("other", create_container=second), "20")
        runtime.add(plugin("slow", create_container=late), "30")
        runtime.add(plugin("checks", validate_container_adjustment=validate), "40")
        pod = make_pod(name="web", namespace="shop")
        for name in ("fine", "refused", "fought", "invalid", "late"):
            with suppress(NriError):
                runtime.create_container(pod, make_container(id=f"id-{name}", name=name)).commit()
            chains[name] = ask(socket, "Why", {"container": f"web/{name}"})
        over.set()
    return Recorded(folder, chains)


def without_times(chain: dict[str, Any]) -> dict[str, Any]:
    steps = [{**step, "time": ""} for kind in ("steps", "notes") for step in chain[kind]]
    refused = chain["refused"] and chain["refused"]["reason"]
    return {"container": chain["container"], "pod": chain["pod"], "steps": steps, "refused": refused}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fine", None),
        ("refused", "plugin 20-other refused: no license"),
        ("fought", 'plugins "20-other" and "10-sets" both tried to set Env A'),
        ("invalid", 'validator "40-checks" rejected container adjustment, reason: not valid here'),
    ],
)
def test_a_recording_and_the_runtime_name_the_same_refusing_plugin(
    recorded: Recorded, name: str, reason: str | None
) -> None:
    live = recorded.chains[name]
    assert (live["refused"] and live["refused"]["reason"]) == reason
    chain = container_history(Trace(recorded.folder), f"web/{name}")
    assert without_times(chain) == without_times(live)
    assert chain["steps"][0]["plugin"] == "10-sets"


def test_a_missing_answer_is_shown_with_plugin_and_event(recorded: Recorded) -> None:
    for chain in (recorded.chains["late"], container_history(Trace(recorded.folder), "shop/web/late")):
        assert chain["refused"] is None
        (note,) = chain["notes"]
        assert note["text"].startswith("CreateContainer: 30-slow gave no answer: ")


def test_an_unknown_container_is_an_error_with_the_next_step(recorded: Recorded) -> None:
    with pytest.raises(ConfigError, match=r'container "nope" not found \(list all events: nri trace show '):
        container_history(Trace(recorded.folder), "nope")
    with pytest.raises(ConfigError, match=r'"web" matches several containers: .*web/late.*\(choose one of them\)'):
        container_history(Trace(recorded.folder), "web")


def test_containers_of_a_recording_have_their_names(recorded: Recorded) -> None:
    changes = Changes()
    for event in Trace(recorded.folder).events():
        changes.take(event)
    assert {str(one) for one in changes.containers()} == {f"id-{name} (shop/web/{name})" for name in recorded.chains}
    assert changes.explain("id-nope") is None


def test_the_number_of_unfinished_creations_is_bounded() -> None:
    changes = Changes()
    for number in range(2001):
        changes.take(event_of("CreateContainer", f"c{number}"))
    for ident in ("c1999", "c2000"):
        changes.take(event_of("StopContainer", ident))
    notes = {ident: (changes.explain(ident) or {})["notes"] for ident in ("c1999", "c2000")}
    assert ["never ran" in note["text"] for note in notes["c1999"]] == [True]
    assert notes["c2000"] == []


def test_ids_that_are_too_long_are_ignored() -> None:
    changes = Changes()
    changes.take(event_of("CreateContainer", "c" * 256))
    changes.take(event_of("CreateContainer", "c" * 257))
    assert [len(one.id) for one in changes.containers()] == [256]


def test_the_values_in_the_answers_for_one_container_are_bounded() -> None:
    reply = m.CreateContainerResponse()
    for number in range(3000):
        reply.adjust.env.add(key=f"K{number}", value="v")
    changes = Changes()
    for _ in range(4):
        event = event_of("CreateContainer", "c1")
        event.add(Step("10-a", "CreateContainer", b"", 1)).reply = reply.SerializeToString()
        changes.take(event)
    chain = changes.explain("c1")
    assert chain is not None and 3000 <= len(chain["steps"]) <= 6000


def event_of(name: str, ident: str) -> Event:
    """An event of a container that was created and never ran."""
    kind = getattr(m, f"{name}Request")
    event = Event(name, 1, 1, 1)
    container = m.Container(id=ident, name="app", state=m.ContainerState.CONTAINER_CREATED)
    event.request = kind(pod=m.PodSandbox(id="p", name="web"), container=container).SerializeToString()
    return event
