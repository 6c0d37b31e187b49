"""Events to plugins: each event is sent once, with the current state."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import nri
from nri.api import messages as m


def test_exit_and_removal_are_reported_once_and_in_order(dry: Any) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    domain = dry.engine.domain
    domain.remove(entry)
    domain.stop(entry)
    domain.remove(entry)
    assert dry.told.of("c")[-2:] == ["stop_container", "remove_container"]
    assert dry.told.of("c").count("remove_container") == 1


def test_a_pod_is_shown_without_missing_namespaces(dry: Any, tmp_path: Any) -> None:
    entry = dry.engine.inventory.pod(dry.pod())
    present = tmp_path / "there"
    present.touch()
    entry.record.namespace_paths = {"network": str(present), "ipc": str(tmp_path / "gone")}
    shown = dry.engine.domain.pod_message(entry)
    assert [row.type for row in shown.linux.namespaces] == ["network"]
    assert (shown.name, shown.namespace) == ("pod", "n")


def test_the_state_has_pods_and_containers_that_have_not_ended(dry: Any) -> None:
    pod = dry.pod()
    running, ended = dry.run(pod, "running"), dry.run(pod, "ended")
    dry.engine.container_removal.stop(ended)
    pods, containers = dry.engine.domain.snapshot()
    assert [container.id for container in pods] == [pod]
    assert [container.id for container in containers] == [running]


def test_a_failed_notification_does_not_fail_the_request(dry: Any, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: object) -> None:
        raise nri.Reject("no")

    dry.told.on["post_start_container"] = refuse
    with caplog.at_level(logging.WARNING):
        container_id = dry.run(dry.pod())
    assert f"NRI post_start_container of {container_id}" in caplog.text


def test_an_eviction_stops_the_container(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    dry.engine.domain.evict([m.ContainerEviction(container_id=container_id, reason="too big")])
    entry = dry.engine.inventory.container(container_id)
    assert entry.ended.wait(20)
    assert "too big" in entry.record.message


def test_only_complete_ids_are_known(dry: Any) -> None:
    container_id = dry.run(dry.pod())
    assert dry.engine.domain.has(container_id)
    assert not dry.engine.domain.has(container_id[:12])
    assert not dry.engine.domain.has("")


def test_a_container_of_a_lost_pod_is_reported(dry: Any) -> None:
    pod = dry.pod()
    entry = dry.engine.inventory.container(dry.run(pod))
    entry.record.pod_id = "f" * 64
    shown: list[str] = []
    dry.told.on["stop_container"] = lambda pod, container: shown.extend((pod.id, container.id))
    dry.engine.domain.stop(entry)
    assert shown == ["f" * 64, entry.id]
