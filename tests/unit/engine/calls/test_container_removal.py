"""The calls on containers with a dry engine: states, errors and events. tests/engine has real containers."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.engine.calls.container_start import START_FAILED
from nri.engine.lifecycle.processes import Processes
from nri.engine.state import ContainerState
from nri.engine.support.errors import CommandFailed, EngineError, InvalidRequest, NotFound, WrongState
from nri.errors import NriError, RequestError

WHOLE = ["create_container", "post_create_container", "start_container", "post_start_container", "stop_container",
         "remove_container"]  # fmt: skip


def refuse(*_: Any) -> None:
    raise nri.Reject("no")


def test_a_complete_lifecycle_has_each_event_once_and_leaves_no_record(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    assert dry.engine.inventory.container(container_id).record.state is ContainerState.RUNNING
    dry.engine.container_removal.stop(container_id, 5)
    record = dry.engine.inventory.container(container_id[:12]).record
    assert (record.state, record.exit_code) == (ContainerState.EXITED, 128 + 15)
    dry.engine.container_removal.remove(container_id)
    assert dry.told.of("c") == WHOLE
    assert dry.engine.inventory.containers() == [] and not [*(dry.config.root / "records/containers").iterdir()]


def test_a_log_is_reopened_for_one_caller_at_a_time(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    container_id, inside, maximum = dry.run(dry.pod(), log_path="0.log"), list[int](), list[int]()

    def reopen(*_: Any) -> None:
        inside.append(1)
        maximum.append(len(inside))
        time.sleep(0.05)
        inside.pop()

    monkeypatch.setattr(dry.engine.machinery.conmon, "reopen_log", reopen)
    threads = [
        threading.Thread(target=dry.engine.running_containers.reopen_log, args=(container_id,)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert maximum == [1, 1, 1]


def test_an_impossible_call_is_an_error_with_the_state(dry: Any) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    with pytest.raises(WrongState, match="running: start"):
        dry.engine.container_start.start(container_id)
    dry.engine.container_removal.stop(container_id)
    for call in (
        lambda: dry.engine.running_containers.exec_sync(container_id, ["ls"]),
        lambda: dry.engine.running_containers.attach(container_id),
    ):
        with pytest.raises(WrongState, match="exited: exec"):
            call()
    dry.engine.pod_removal.stop(pod)
    with pytest.raises(WrongState, match="stopped: create a container"):
        dry.create(pod, "late")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"log_path": "/etc/passwd"}, "log_path"),
        ({"log_path": "a/../../b"}, "log_path"),
    ],
)
def test_an_invalid_request_is_an_error_with_its_field_and_leaves_no_files(dry: Any, changes: Any, field: str) -> None:
    pod = dry.pod()
    with pytest.raises(RequestError) as raised:
        dry.create(pod, **changes)
    assert raised.value.field == field
    with pytest.raises(RequestError, match=r"metadata\.name"):
        dry.create(pod, "")
    assert dry.engine.inventory.containers() == [] and dry.told.of("c") == []


def test_unknown_ids_are_not_found_and_prefixes_must_be_unique(dry: Any) -> None:
    pod = dry.pod()
    for number in range(17):  # two of them begin alike
        dry.create(pod, f"c{number}")
    with pytest.raises(NotFound):
        dry.engine.inventory.container("zzz")
    first = [container.id[0] for container in dry.engine.inventory.containers()]
    twice = next(letter for letter in first if first.count(letter) > 1)
    with pytest.raises(InvalidRequest, match="matches"):
        dry.engine.inventory.container(twice)


def test_a_creation_that_a_plugin_refuses_is_undone_and_reported(dry: Any) -> None:
    dry.told.on["create_container"] = refuse
    pod = dry.pod()
    with pytest.raises(NriError, match="10-told"):
        dry.create(pod)
    assert dry.told.of("c") == ["create_container", "stop_container", "remove_container"]
    assert [path.name for path in (dry.config.state / "bundles").iterdir()] == [pod]  # no bundle but the pod's


def test_a_failed_start_ends_the_container_with_the_reason(dry: Any) -> None:
    container_id = dry.create(dry.pod())
    runtime = dry.engine.machinery.runtime("runc")
    runtime.start = lambda _: (_ for _ in ()).throw(CommandFailed("runc start", 1, "broken"))
    with pytest.raises(CommandFailed, match="broken"):
        dry.engine.container_start.start(container_id)
    record = dry.engine.inventory.container(container_id).record
    assert (record.exit_code, record.reason) == START_FAILED and "broken" in record.message
    assert dry.told.of("c")[-2:] == ["start_container", "stop_container"]


@pytest.mark.parametrize("ended", [True, False])
def test_an_evicted_container_cannot_be_started_and_the_error_says_why(dry: Any, ended: bool) -> None:
    container_id = dry.create(dry.pod())
    entry = dry.engine.inventory.container(container_id)
    if ended:
        dry.engine.domain.evict([m.ContainerEviction(container_id=container_id, reason="not wanted")])
        assert entry.ended.wait(20)
    else:  # in the middle of its end, which nobody has taken up yet
        dry.engine.inventory.note(entry, message="evicted by a plugin: not wanted")
        stopped = CommandFailed("runc start", 1, "cannot start a container that has stopped")
        dry.engine.machinery.runtime("runc").start = lambda _: (_ for _ in ()).throw(stopped)
    with pytest.raises(EngineError, match=f"container {container_id} does not start: evicted by a plugin: not wanted"):
        dry.engine.container_start.start(container_id)
    assert entry.record.message == "evicted by a plugin: not wanted"
    assert entry.record.state is ContainerState.EXITED


def test_stopping_a_pod_stops_only_its_containers(dry: Any) -> None:
    one, two = dry.pod("one"), dry.pod("two")
    dry.run(one, "a")
    dry.create(one, "b")
    dry.run(two, "c")
    dry.engine.pod_removal.stop(one)
    assert {container.record.state for container in dry.engine.inventory.containers(one)} == {ContainerState.EXITED}
    dry.engine.pod_removal.remove(one)
    assert [container.record.pod_id for container in dry.engine.inventory.containers()] == [two]
    assert dry.told.of("a")[-2:] == dry.told.of("b")[-2:] == ["stop_container", "remove_container"]


def test_unsupported_values_of_a_plugin_are_omitted_and_reported(dry: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machinery = dry.engine.machinery
    machinery.machine = replace(machinery.machine, cgroup_v2=False)
    dry.told.on["create_container"] = lambda *_: (
        nri.Adjustment().add_unified("memory.high", "1").set_cpu_shares(5).message, []
    )  # fmt: skip
    container_id = dry.run(dry.pod())
    assert "unified" not in dry.engine.inventory.container(container_id).spec["linux"]["resources"]
    notes = [text for _, text in dry.engine.nri.adaptation.provenance.explain(container_id).notes]
    assert [text for text in notes if "unified[memory.high] unsupported" in text], notes
    assert not [text for text in notes if "cpu.shares" in text]
    assert f"container {container_id}: a part of a plugin's adjustment is left out: unified" in caplog.text


def test_a_pod_is_not_stopped_while_a_container_cannot_be_killed(dry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = dry.pod()
    container_id = dry.run(pod)
    for call in (dry.engine.pod_removal.stop, dry.engine.pod_removal.remove):
        with monkeypatch.context() as context:
            context.setattr(Processes, "stop", lambda *_: fail(errno.EMFILE))
            with pytest.raises(OSError, match="Too many open files"):
                call(pod)
        assert dry.engine.inventory.container(container_id).record.state is ContainerState.RUNNING
        assert [pod.id for pod in dry.engine.inventory.pods()] == [pod]
    dry.engine.pod_removal.remove(pod)
    assert dry.engine.inventory.containers() == dry.engine.inventory.pods() == []


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))
