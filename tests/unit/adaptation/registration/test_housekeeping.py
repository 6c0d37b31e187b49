"""Housekeeping between events: closed connections are freed, and a changed policy is applied."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from nri.adaptation.adaptation import parts_of
from nri.adaptation.registration import housekeeping
from nri.errors import PluginError
from nri.testing import FakeRuntime
from tests.support.made_plugins import Quiet, plugin
from tests.support.waiting import wait_for

REQUIRED = '["20-missing"]\nrequired = true\n'


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "CHECK_INTERVAL_S", 0.01)


def refused(runtime: FakeRuntime) -> bool:
    try:
        runtime.run_pod_sandbox()
    except PluginError:
        return True
    return False


def test_a_changed_policy_applies_without_any_event_or_plugin(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    with FakeRuntime(policy_path=str(path)) as runtime:
        assert not refused(runtime)
        path.write_text(REQUIRED)
        wait_for(lambda: refused(runtime), "the missing plugin is required")


def test_a_changed_policy_can_make_a_plugin_a_validator_and_notifies_listeners(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('["10-a"]\nallow.events = ["StartContainer"]\n')
    with FakeRuntime(policy_path=str(path)) as runtime:
        runtime.add(plugin("a", start_container=lambda *_: None, validate_container_adjustment=lambda _: None))
        assert parts_of(runtime.adaptation).chain.validators == ()
        path.write_text("")
        wait_for(lambda: parts_of(runtime.adaptation).chain.validators, "it validates")


def test_a_changed_request_timeout_applies_at_once() -> None:
    with FakeRuntime() as runtime:
        runtime.add(Quiet())
        runtime.adaptation.set_request_timeout(7.5)
        (peer,) = parts_of(runtime.adaptation).chain.peers
        assert {policy.timeout_s for policy in peer.event_policies if policy is not None} == {7.5}


def test_a_connection_that_was_busy_at_its_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeRuntime() as runtime:
        runtime.add(Quiet())
        (peer,) = parts_of(runtime.adaptation).chain.peers
        before = len(os.listdir("/proc/self/fd"))
        assert peer.endpoint.fileno() >= 0
        runtime.disconnect()
        wait_for(lambda: peer.endpoint.fileno() < 0, "its descriptor is given back")
        assert len(os.listdir("/proc/self/fd")) < before


def test_housekeeping_continues_while_a_thread_uses_a_closed_connection() -> None:
    with FakeRuntime() as runtime:
        registry = parts_of(runtime.adaptation).registry
        looks: list[int] = []

        def reap() -> int:
            looks.append(1)
            return int(len(looks) < 40)

        registry.reap = reap  # type: ignore[method-assign]
        registry.notify_listeners()  # some rounds follow, and the last one leads to more
        wait_for(lambda: len(looks) >= 40, "it continues until no connection is left")
        del registry.reap


def test_an_exception_is_logged_and_housekeeping_continues(caplog: pytest.LogCaptureFixture) -> None:
    with FakeRuntime() as runtime:
        registry = parts_of(runtime.adaptation).registry
        calls: list[int] = []

        def broken() -> None:
            calls.append(1)
            raise ZeroDivisionError("in between")

        with caplog.at_level(logging.ERROR, "nri.adaptation"):
            registry.reap = broken  # type: ignore[method-assign]
            wait_for(lambda: len(calls) >= 2, "it looked again")
        del registry.reap
    assert "failed to apply a changed policy completely" in caplog.text


def test_housekeeping_ends_with_the_runtime() -> None:
    def housekeepers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "nri-housekeeping"]

    before = set(housekeepers())
    with FakeRuntime():
        (keeper,) = set(housekeepers()) - before
        assert keeper.is_alive()
    assert not keeper.is_alive()
