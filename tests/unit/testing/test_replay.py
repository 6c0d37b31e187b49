"""A recording is replayed, and differences are reported with event and field."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nri
from nri.adaptation import BuiltinPlugin
from nri.api import messages as m
from nri.errors import ConfigError, NriError, RemoteProtocolError
from nri.stub.session.session import Session
from nri.testing import FakeRuntime, Replay, make_container, make_pod
from nri.trace.history import Trace
from nri.trace.recorder import Recorder


class Sets(nri.Plugin):
    """Sets the value of its class, refuses containers called bad; updates another container at an update and a stop."""

    value = "old"

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "bad":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("LEVEL", self.value).set_cpu_shares(512)

    def update_container(
        self, pod: nri.PodSandbox, container: nri.Container, resources: nri.LinuxResources
    ) -> nri.Update:
        return nri.Update(container).set_cpu_shares(len(self.value))

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> list[nri.Update]:
        return []


class Newer(Sets):
    """The same with another value."""

    value = "newer"


class Labels(nri.Plugin):
    """Adds an annotation."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_annotation("example.com/pod", pod.name)


class Careless(Sets):
    """Refuses nothing."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("LEVEL", self.value).set_cpu_shares(512)


def record(folder: Path, *plugins: nri.Plugin, redact: bool = False) -> Path:
    """The life of a pod with a container, an update, and one that is refused."""
    with Recorder(folder, redact=redact) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        for number, plugin in enumerate(plugins or (Sets(),), 1):
            runtime.add(plugin, f"{number}0", f"p{number}")
        pod, container = make_pod(name="web", namespace="shop"), make_container(name="main")
        runtime.run_pod_sandbox(pod)
        runtime.create_container(pod, container)
        runtime.start_container(pod, container)
        runtime.update_container(pod, container, nri.Update(container).set_cpu_shares(7))
        with pytest.raises(NriError):
            runtime.create_container(pod, make_container(name="bad"))
        runtime.stop_container(pod, container)
        runtime.remove_container(pod, container)
    return folder


def record_one(folder: Path, plugin: nri.Plugin) -> Path:
    """Two containers of one pod."""
    with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(plugin, "10", "p1")
        pod = make_pod(name="web", namespace="shop")
        for number in ("1", "2"):
            runtime.create_container(pod, make_container(id=f"c{number}", name=f"app{number}"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("traces"))


def differences(folder: Path, *plugins: nri.Plugin) -> list[str]:
    with Replay(folder) as replay:
        for number, plugin in enumerate(plugins, 1):
            replay.add(plugin, f"{number}0", f"p{number}")
        return replay.differences()


def test_the_same_plugin_gives_no_difference(folder: Path) -> None:
    assert differences(folder, Sets()) == []


def test_a_changed_plugin_differs_by_event_field_and_values(folder: Path) -> None:
    assert differences(folder, Newer()) == [
        'CreateContainer shop/web/main: Env LEVEL: recorded "old"; now "newer"',
        "UpdateContainer shop/web/main: CPUShares: recorded 3; now 5",
    ]


class Late(nri.Plugin):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        self.let.wait()
        return nri.Adjustment().add_env("SLOW", "yes")


def test_a_difference_names_a_plugin_without_an_answer(tmp_path: Path) -> None:
    policy = '["10-p1"]\ntimeout = "200ms"\n'
    plugin = Late()
    with Recorder(tmp_path, redact=False) as recorder, FakeRuntime(reporters=[recorder], policy=policy) as runtime:
        runtime.add(plugin, "10", "p1").create_container(
            make_pod(name="web", namespace="shop"), make_container(name="main")
        )
        plugin.let.set()
    reason = "p1, which did not answer: deadline exceeded while waiting for CreateContainer"
    subject = "CreateContainer shop/web/main: "
    assert differences(tmp_path, plugin) == [
        f'{subject}Env SLOW: recorded nothing; now "yes"',
        f"{subject}recorded without 10-{reason}",
    ]
    record_one(tmp_path / "again", plugin)
    plugin.let.clear()
    with Replay(tmp_path / "again", policy=policy) as replay:
        replay.add(plugin, "10", "p1")
        lines = replay.differences()
        plugin.let.set()
    assert f"CreateContainer shop/web/app1: now without 10-{reason}" in lines
    with Replay(tmp_path) as replay:
        (only,) = replay.outcomes()
    assert (only.differences, list(only.missed)) == ((), ["10-p1"])


@pytest.mark.pure  # the errors of a plugin's side are chosen here
@pytest.mark.parametrize("where", ["recorded", "now"])
def test_a_protocol_error_counts_as_a_missing_answer(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbled(*_: object) -> None:
        raise RemoteProtocolError("its reply is invalid")

    monkeypatch.setattr("nri.adaptation.peers.builtin.BuiltinPeer.invoke", garbled)
    builtin = {"builtin": [BuiltinPlugin("10", "p1", SimpleNamespace(create_container=print))]}
    both: tuple[dict[str, Any], ...] = (builtin, {}) if where == "recorded" else ({}, builtin)
    with Recorder(tmp_path, redact=False) as recorder, FakeRuntime(reporters=[recorder], **both[0]) as runtime:
        if not both[0]:
            runtime.add(Labels(), "10", "p1")
        runtime.create_container(make_pod(name="web", namespace="shop"), make_container(name="main"))
    with Replay(tmp_path, **both[1]) as replay:
        if not both[1]:
            replay.add(Labels(), "10", "p1")
        differences = replay.differences()
    reason = "10-p1, which did not answer: its reply is invalid"
    assert f"CreateContainer shop/web/main: {where} without {reason}" in differences


def test_a_missing_refusal_is_a_difference(folder: Path) -> None:
    (only,) = differences(folder, Careless())
    assert only.startswith("CreateContainer shop/web/bad: recorded: ")
    assert "not this one" in only
    assert only.endswith("; now: ok")


def test_without_a_plugin_its_changes_are_missing(folder: Path) -> None:
    lines = differences(folder)
    assert 'CreateContainer shop/web/main: Env LEVEL: recorded "old"; now nothing' in lines
    assert "CreateContainer shop/web/main: CPUShares: recorded 512; now nothing" in lines


def test_a_conflict_is_the_outcome_of_an_event(tmp_path: Path) -> None:
    with Replay(record(tmp_path)) as replay:
        replay.add(Sets(), "10", "p1").add(Sets(), "20", "p2")
        created, *_ = replay.differences()
    assert created.startswith("CreateContainer shop/web/main: recorded: ok; now: ")
    assert "both tried to set" in created


def test_redacted_recordings_cannot_be_replayed(tmp_path: Path) -> None:
    class Env(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("PW", "S3CRET")

    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Env(), "10").create_container(make_pod(name="web", namespace="shop"), make_container(name="main"))
    (only,) = differences(tmp_path, Env())
    assert only == (
        "CreateContainer shop/web/main: its values were replaced in the recording: "
        "record with --redact none to run it again"
    )


def test_a_truncated_recording_is_replayed_up_to_its_last_complete_event(folder: Path, tmp_path: Path) -> None:
    from nri.trace import blocks
    from nri.trace.history import Trace
    from nri.wire import bytes_field

    records = [record for record, _ in Trace(folder).records()]
    saved = records[:-2]
    raw = b"".join(bytes_field(1, entry.SerializeToString()) for entry in saved)
    path = tmp_path / "cut.nritrace"
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, len(saved), 1, 2))
    assert differences(path, Sets()) == ["RemoveContainer shop/web/main: a part of it is missing"]


def test_a_plugin_receives_the_initial_state_of_the_recording(tmp_path: Path) -> None:
    class Knows(nri.Plugin):
        initial_names: tuple[str, ...] = ()

        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            self.initial_names = tuple(pod.name for pod in pods) + tuple(container.name for container in containers)

    pod = make_pod(name="old")
    container = make_container(pod=pod, name="before")
    with (
        Recorder(tmp_path, redact=False) as recorder,
        FakeRuntime(reporters=[recorder], pods=[pod], containers=[container]) as runtime,
    ):
        runtime.add(Knows(), "10")
        runtime.start_container(pod, container)
    with Replay(tmp_path) as replay:
        plugin = Knows()
        replay.add(plugin, "10")
        assert (plugin.initial_names, replay.differences()) == (("old", "before"), [])


def test_the_plugins_of_the_recording_are_listed(folder: Path) -> None:
    with Replay(folder) as replay:
        replay.differences()
        assert list(replay.recorded) == ["10-p1"]


def test_a_plugins_own_recording_is_compared_with_its_answers(tmp_path: Path) -> None:
    pod, container = make_pod(name="web", namespace="shop"), make_container(name="main")
    request = m.CreateContainerRequest(pod=pod, container=container).SerializeToString()
    for value, expected in (
        ("old", []),
        ("older", ['CreateContainer shop/web/main: Env LEVEL: recorded "older"; now "old"']),
    ):
        adjust = nri.Adjustment().add_env("LEVEL", value).set_cpu_shares(512)
        reply = m.CreateContainerResponse(adjust=adjust.message).SerializeToString()
        folder = tmp_path / value
        with Recorder(folder, redact=False) as recorder:
            recorder.event_begins("CreateContainer", 1, request)
            recorder.plugin_asked("10-p1", "CreateContainer", 1, request)
            recorder.plugin_answered("10-p1", "CreateContainer", 1, reply, 0.001)
            recorder.event_ends("CreateContainer", 1, reply, None, 0.001)
        assert differences(folder, Sets()) == expected


def test_in_real_time_events_keep_their_recorded_intervals(folder: Path) -> None:
    with Replay(folder) as replay:
        replay.add(Sets(), "10", "p1")
        assert not any(outcome.differences for outcome in replay.outcomes(real_time=True))


def test_a_missing_recording_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no trace"):
        Replay(tmp_path)


def test_unsolicited_updates_are_replayed_in_their_order(tmp_path: Path) -> None:
    asking = Sets()
    with Recorder(tmp_path, redact=True) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(asking, "10")
        container = make_container(id="c1", name="app")
        runtime.create_container(make_pod(name="web", namespace="shop"), container)
        asking.runtime.update(
            nri.Update("c1").set_memory_limit(5 << 20), nri.Update("nowhere").set_cpu_shares(2)
        ).result()
    events = [event for event in Trace(tmp_path).events() if event.name == "UpdateContainers"]
    assert [(event.whole, event.subject, [step.plugin for step in event.steps]) for event in events] == [
        (True, "c1", ["10-sets"])
    ]
    assert [update.container_id for update in events[0].message.update] == ["c1", "nowhere"]
    with Replay(tmp_path) as replay:
        replay.add(Sets(), "10")
        outcomes = [outcome for outcome in replay.outcomes() if outcome.event.name == "UpdateContainers"]
        assert [outcome.left_out for outcome in outcomes] == [""]
        assert outcomes[0].differences == ("update of container c1: recorded done; now failed",), (
            "its creation is redacted"
        )
    with Replay(tmp_path) as replay:
        replay.add(Sets(), "10")
        replay.disconnect()
        (ended_pod,) = [outcome for outcome in replay.outcomes() if outcome.event.name == "UpdateContainers"]
        assert ended_pod.differences[0].startswith("recorded: ok; now: ") and not ended_pod.differences[0].endswith(
            "ok"
        )
    with Replay(tmp_path) as replay:
        (remaining,) = [outcome for outcome in replay.outcomes() if outcome.event.name == "UpdateContainers"]
        assert remaining.left_out == "10-sets requested it, and was not added, or is a separate program"


class Ordered(nri.Plugin):
    """Sets two variables in the order of its class."""

    names = ("A", "B")

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        adjustment = nri.Adjustment()
        for name in self.names:
            adjustment.add_env(name, "1")
        return adjustment


class Reversed(Ordered):
    """The same the other way round."""

    names = ("B", "A")


def test_equal_entries_in_another_order_are_reported_as_reordered(tmp_path: Path) -> None:
    lines = differences(record_one(tmp_path, Ordered()), Reversed())
    assert len(lines) == 2
    assert lines[0].endswith(": the same entries in another order, or with values that the container already has")


class Evicts(nri.Plugin):
    """Evicts another container when one is made."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Eviction | None:
        return nri.Eviction("c1", "no room") if container.id == "c2" else None


def test_evictions_are_compared(tmp_path: Path) -> None:
    (only,) = differences(record_one(tmp_path, Evicts()))
    assert only.endswith('eviction of container c1: recorded "no room"; now nothing')


class Validates(Sets):
    """Looks at what all have made of a container."""

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        pass


def test_the_answers_of_validators_are_not_compared(tmp_path: Path) -> None:
    both = record(tmp_path / "runtime", Labels(), Validates())
    assert differences(both, Labels(), Validates()) == []
    recorder = Recorder(tmp_path / "own", redact=False)
    with recorder, FakeRuntime() as runtime:
        near_end, far_end = socket.socketpair()
        session = Session(Validates(), far_end, index="10", name="v", reporter=recorder)
        thread = threading.Thread(target=session.run)
        thread.start()
        runtime.connect(near_end)
        assert runtime.adaptation.ready(["10-v"], 20.0, settled=True)
        runtime.create_container(make_pod(name="web"), make_container(name="app"))
        session.stop()
        thread.join()
    assert [line.partition(": ")[2] for line in differences(tmp_path / "own", Validates()) if "validator" in line] == [
        "a validator recorded it: record the runtime instead, to run it again with the creation"
    ]


class Counts(nri.Plugin):
    """Sets how many containers there are, and refuses those called bad."""

    mirror = True

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "bad":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("THERE", str(len(self.state.containers)))


def by_itself(folder: Path, entries: list[tuple[str, m.Message, m.Message, Exception | None]], plugin: str) -> Path:
    """A recording that a plugin under `nri run` makes of the events of an old runtime."""
    with Recorder(folder, redact=False, about={"command": "nri run"}) as recorder:
        for serial, (event, request, reply, error) in enumerate(entries, 1):
            data, answered = request.SerializeToString(), reply.SerializeToString()
            recorder.event_begins(event, serial, data)
            recorder.plugin_asked(plugin, event, serial, data)
            if error is None:
                recorder.plugin_answered(plugin, event, serial, answered, 0.001)
            else:
                recorder.plugin_failed(plugin, event, serial, error, 0.001)
            recorder.event_ends(event, serial, answered, error, 0.001)
    return folder


def life_of_one(existing: int) -> list[tuple[str, m.Message, m.Message, Exception | None]]:
    """The events that a runtime before 0.12 sends to a plugin, with existing containers, in parts."""
    pod, container, nothing = (
        make_pod(id="p", name="web", namespace="shop"),
        make_container(id="c", name="main"),
        m.Empty(),
    )
    parts = [
        m.SynchronizeRequest(
            pods=[pod], containers=[make_container(id=f"o{n}", name="old", pod=pod)], more=n + 1 < existing
        )
        for n in range(existing)
    ]
    answer = m.CreateContainerResponse(adjust=nri.Adjustment().add_env("THERE", str(existing)).message)
    bad = m.CreateContainerRequest(pod=pod, container=make_container(id="b", name="bad"))

    def state(event: int, **more: m.Container) -> tuple[str, m.Message, m.Message, None]:
        return "StateChange", m.StateChangeEvent(event=event, pod=pod, **more), nothing, None

    return [
        ("Configure", m.ConfigureRequest(runtime_name="containerd"), m.ConfigureResponse(events=1), None),
        *[("Synchronize", part, m.SynchronizeResponse(more=part.more), None) for part in parts],
        state(m.Event.RUN_POD_SANDBOX),
        ("CreateContainer", m.CreateContainerRequest(pod=pod, container=container), answer, None),
        state(m.Event.START_CONTAINER, container=container),
        ("CreateContainer", bad, nothing, nri.Reject("not this one")),
        state(m.Event.REMOVE_CONTAINER, container=container),
        state(99),
    ]


@pytest.mark.parametrize("existing", [1, 3])
def test_a_plugins_own_recording_has_its_state_and_the_events_of_old_runtimes(tmp_path: Path, existing: int) -> None:
    folder = by_itself(tmp_path, life_of_one(existing), "10-p1")
    with Replay(folder) as replay:
        replay.add(Counts(), "10", "p1")
        outcomes = list(replay.outcomes())
    assert [(outcome.event.name, outcome.left_out, outcome.differences) for outcome in outcomes] == [
        (name, "", ())
        for name in ("RunPodSandbox", "CreateContainer", "StartContainer", "CreateContainer", "RemoveContainer")
    ]


def test_several_plugins_with_their_own_recordings_are_compared_separately(tmp_path: Path) -> None:
    with Replay(by_itself(tmp_path, life_of_one(1), "20-p2")) as replay:
        replay.add(Labels(), "10", "p1").add(Counts(), "20", "p2")
        assert replay.differences() == []


def test_a_different_refusal_is_a_difference(tmp_path: Path) -> None:
    message = [entry for entry in life_of_one(1) if entry[0] != "CreateContainer" or entry[3] is not None]
    message = [(*entry[:3], entry[3] and nri.Reject("no more room")) for entry in message]
    with Replay(by_itself(tmp_path, message, "10-p1")) as replay:
        replay.add(Counts(), "10", "p1")
        (only,) = replay.differences()
    assert only.startswith("CreateContainer shop/web/bad: recorded: no more room; now: ")


def test_a_recording_of_an_observing_plugin_is_skipped(tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False, about={"command": "engine serve"}) as recorder:
        with (
            Recorder(tmp_path, redact=False, about={"command": "nri record"}) as looks,
            FakeRuntime(reporters=[recorder, looks]) as runtime,
        ):
            runtime.add(Sets(), "10")
            runtime.run_pod_sandbox(make_pod(name="web"))
    with Replay(tmp_path) as replay:
        replay.add(Sets(), "10")
        outcomes = [outcome for outcome in replay.outcomes() if outcome.event.name == "RunPodSandbox"]
    assert [outcome.event.recording for outcome in outcomes] == [1, 2]
    assert [bool(outcome.left_out) for outcome in outcomes] == [False, True]


class Shares(nri.Plugin):
    """Adds the variable of its index; a value of "" answers with nothing."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__()
        self.key, self.value = key, value

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        return nri.Adjustment().add_env(self.key, self.value) if self.value else None


def chain_of_twelve(changed: int = -1, value: str = "") -> list[Shares]:
    """Twelve plugins: every third one has an empty reply; the one at `changed` has another value."""
    values = ["" if place % 3 == 0 else "as recorded" for place in range(12)]
    return [Shares(f"V{place}", value if place == changed else values[place]) for place in range(12)]


def add_all(runtime: FakeRuntime, plugins: list[Shares]) -> None:
    for place, plugin in enumerate(plugins, 10):
        runtime.add(plugin, str(place), "p")


@pytest.fixture(scope="module")
def recording_of_twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twelve")
    with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        add_all(runtime, chain_of_twelve())
        runtime.create_container(make_pod(name="web", namespace="shop"), make_container(name="main"))
    return folder


@pytest.mark.parametrize("changed", range(12))
def test_of_twelve_plugins_only_the_changed_plugin_differs(recording_of_twelve: Path, changed: int) -> None:
    lines = {}
    for value in ("", "as recorded", "changed"):
        with Replay(recording_of_twelve) as replay:
            add_all(replay, chain_of_twelve(changed, value))
            lines[value] = replay.differences()
    subject = f"CreateContainer shop/web/main: Env V{changed}:"
    if changed % 3 == 0:
        assert lines == {
            "": [],
            "as recorded": [f'{subject} recorded nothing; now "as recorded"'],
            "changed": [f'{subject} recorded nothing; now "changed"'],
        }
    else:
        assert lines == {
            "": [f'{subject} recorded "as recorded"; now nothing'],
            "as recorded": [],
            "changed": [f'{subject} recorded "as recorded"; now "changed"'],
        }


def test_the_answers_of_shadow_plugins_are_not_the_outcome(tmp_path: Path) -> None:
    policy = '["10-p1"]\nshadow = true\n'
    with Recorder(tmp_path, redact=False) as recorder, FakeRuntime(reporters=[recorder], policy=policy) as runtime:
        runtime.add(Sets(), "10", "p1").add(Labels(), "20", "p2")
        runtime.create_container(make_pod(name="web", namespace="shop"), make_container(name="main"))
    with Replay(tmp_path, policy=policy) as replay:
        replay.add(Newer(), "10", "p1").add(Labels(), "20", "p2")
        assert replay.differences() == []
    with Replay(tmp_path, policy=policy) as replay:
        replay.add(Sets(), "10", "p1")
        (only,) = replay.differences()
    assert only.startswith("CreateContainer shop/web/main: Annotations example.com/pod: recorded")


def test_a_plugins_own_recording_is_compared_only_with_its_index(tmp_path: Path) -> None:
    with Replay(by_itself(tmp_path, life_of_one(1), "20-p2")) as replay:
        replay.add(Labels(), "10", "p1").add(Counts(), "20", "renamed")
        assert replay.differences() == []
    with Replay(tmp_path) as replay:
        replay.add(Labels(), "10", "p1").add(Labels(), "30", "p3")
        outcomes = [outcome for outcome in replay.outcomes() if outcome.event.name == "CreateContainer"]
    step = "it was recorded by 20-p2, and no plugin with this index was added: add it with index 20"
    assert [outcome.left_out for outcome in outcomes] == [step, step]


def test_an_empty_recorded_answer_counts_as_an_answer(tmp_path: Path) -> None:
    pod = make_pod(name="web", namespace="shop")
    message = [
        ("CreateContainer", m.CreateContainerRequest(pod=pod, container=make_container(name="main")), m.Empty(), None)
    ]
    folder = by_itself(tmp_path, message, "10-p1")
    with Replay(folder) as replay:
        replay.add(Shares("A", ""), "10", "p1").add(Labels(), "20", "p2")
        assert replay.differences() == []
    with Replay(folder) as replay:
        replay.add(Shares("A", "1"), "10", "p1").add(Labels(), "20", "p2")
        assert replay.differences() == ['CreateContainer shop/web/main: Env A: recorded nothing; now "1"']


def test_the_number_of_plugins_of_a_recording_is_bounded(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for number in range(300):
            recorder.plugin_changed(f"10-p{number}", "gone", {})
    with Replay(tmp_path) as replay:
        replay.differences()
        assert len(replay.recorded) == 256


def test_the_number_of_pods_and_the_length_of_ids_are_bounded(tmp_path: Path) -> None:
    pod = make_pod(id="p1", name="web", namespace="shop")
    with Recorder(tmp_path, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.run_pod_sandbox(pod)
        for ident in ("c1", "c2", "c3", "c4", "c5", "c6", "c7"):
            container = make_container(id=ident, name=ident, pod=pod, env={"LONG": "x" * 900_000})
            runtime.start_container(pod, container)
            if ident == "c1":
                runtime.remove_container(pod, container)
        runtime.start_container(pod, make_container(id="c" * 257, name="long", pod=pod))
    with Replay(tmp_path) as replay:
        left_out = [outcome.left_out.partition(":")[0] for outcome in replay.outcomes()]
    full = "the recording has too many pods and containers at the same time"
    assert left_out == [*[""] * 8, full, "the id of its pod or container has more than 256 characters"]
