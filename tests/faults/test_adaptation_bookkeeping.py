"""The adaptation's data about its plugins stays correct when threads race and observers fail."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.metrics import Observer
from nri.plugin_policy.policy import Policies
from nri.testing import FakeRuntime
from tests.support.adapting import PATIENCE_S, change
from tests.support.waiting import wait_for


class Quiet(nri.Plugin):
    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def test_a_connected_required_plugin_is_not_missing_when_an_older_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeRuntime(policy='["10-quiet"]\nrequired = true\n') as runtime:
        adaptation = runtime.adaptation
        looking, go = threading.Event(), threading.Event()
        required = parts_of(adaptation).policies.required

        def slow_for_one(_: Policies) -> Any:
            if threading.current_thread() is leaving:
                looking.set()
                go.wait(PATIENCE_S)
            return required

        monkeypatch.setattr(Policies, "required", property(slow_for_one))
        leaving = threading.Thread(target=parts_of(adaptation).chain.note_absent)
        leaving.start()
        assert looking.wait(PATIENCE_S)
        runtime.add(Quiet(), wait=False)
        wait_for(lambda: parts_of(adaptation).chain.peers, "the plugin is in the chain")
        threading.Event().wait(0.05)  # time for its own look, if that does not wait for the other
        go.set()
        leaving.join()
        wait_for(lambda: not parts_of(adaptation).chain.absent, "nobody is missed")


class Moody(Observer):
    """An observer whose count fails while `fails` is set."""

    fails = False

    def update_plugin_count(self, count: int) -> None:
        if self.fails:
            raise RuntimeError("no such metric")


def test_a_failing_observer_does_not_end_the_watch_on_the_policy(caplog: pytest.LogCaptureFixture) -> None:
    observer = Moody()
    with FakeRuntime(policy="", observer=observer) as runtime, caplog.at_level(logging.ERROR, "nri.adaptation"):
        adaptation = runtime.adaptation
        path = Path(str(parts_of(adaptation).policies.path))
        observer.fails = True
        change(path, '["10-quiet"]\nrequired = true\n')
        wait_for(lambda: "no such metric" in caplog.text, "the failure was logged")
        observer.fails = False
        change(path, "# nobody is required any more\n")
        wait_for(lambda: parts_of(adaptation).policies.generation == 3, "the policy was read again")
        wait_for(lambda: not parts_of(adaptation).chain.absent, "and holds")
