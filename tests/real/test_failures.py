"""Failing plugins and runtimes: a handler that raises, a late handler, a killed containerd."""

from __future__ import annotations

import grpc
import pytest

from tests.real.conftest import Plug, Start
from tests.real.plugin_process import PluginProcess
from tests.real.support_matrix import EVENTS, FACTS, YES
from tools.runtimes import Containerd
from tools.runtimes.cri import Pod

#: As long as by default: all other handlers have to be in time, also on a machine that stands still for a moment.
TIMEOUT_S = 2.0
# Without validation: that request would wait for the late handler as well, be late itself, and refuse the container.
WITHOUT_VALIDATION = "CreateContainer,StopContainer"
LATE = {"test/delay": f"CreateContainer {TIMEOUT_S * 1.5}", "test/adjust": "env"}


def test_an_exception_of_a_handler_fails_the_request_with_plugin_type_and_text(start: Start, plug: Plug) -> None:
    daemon = start()
    plugin = plug(daemon)
    pod = daemon.cri.run_pod("raises", annotations={"test/fail": "CreateContainer"})
    with pytest.raises(grpc.RpcError, match="plugin 10-recorder: RuntimeError: asked to fail at CreateContainer"):
        daemon.cri.create(pod, "main")
    assert len(plugin.lines("Configure")) == 1, "the plugin must stay connected"
    other = daemon.cri.run_pod("works", annotations={"test/adjust": "env"})
    assert "ADDED=yes" in daemon.cri.exec(daemon.cri.run(other, "main"), "/bin/env")


def test_two_plugins_that_set_the_same_field_fail_the_request(start: Start, plug: Plug) -> None:
    daemon = start()
    plug(daemon, idx="10", name="first")
    plug(daemon, idx="20", name="second")
    pod = daemon.cri.run_pod("conflict", annotations={"test/adjust": "env"})
    with pytest.raises(grpc.RpcError, match='plugins "20-second" and "10-first" both tried to set'):
        daemon.cri.create(pod, "main")


def test_a_failed_creation_is_reported_to_earlier_plugins_as_a_removal(start: Start, plug: Plug) -> None:
    daemon = start()
    early = plug(daemon, idx="05", name="early")
    plug(daemon, idx="50", name="late")
    pod = daemon.cri.run_pod("undone", annotations={"test/fail": "CreateContainer late"})
    with pytest.raises(grpc.RpcError, match="asked to fail"):
        daemon.cri.create(pod, "main")
    early.wait_for("RemoveContainer", pod="undone")
    assert [line["event"] for line in early.lines(pod="undone")] == [
        "RunPodSandbox",
        "CreateContainer",
        "StopContainer",
        "RemoveContainer",
    ]


def test_a_pod_refused_by_a_plugin_is_removed(start: Start, plug: Plug) -> None:
    daemon = start()
    plugin = plug(daemon)
    with pytest.raises(grpc.RpcError, match="asked to fail at RunPodSandbox"):
        daemon.cri.run_pod("refused", annotations={"test/fail": "RunPodSandbox"})
    plugin.wait_for("RemovePodSandbox", pod="refused")


def test_a_validator_refuses_a_container_where_documented(key: str, start: Start, plug: Plug) -> None:
    daemon = start()
    plug(daemon)
    validates = next(row for row in EVENTS if row.name == "ValidateContainerAdjustment")[key] == YES
    outcome = created(daemon, daemon.cri.run_pod("checked", annotations={"test/fail": "ValidateContainerAdjustment"}))
    assert ("asked to fail at ValidateContainerAdjustment" in outcome) == validates, outcome
    assert (outcome == "plain") != validates


def created(daemon: Containerd, pod: Pod) -> str:
    """`adjusted`, `plain` or the error of a creation."""
    try:
        container = daemon.cri.run(pod, "main")
    except grpc.RpcError as error:
        return f"error: {error.details()}"
    return "adjusted" if "ADDED=yes" in daemon.cri.exec(container, "/bin/env") else "plain"


def test_without_a_policy_a_late_handler_costs_the_connection(start: Start, plug: Plug) -> None:
    daemon = start(request_timeout_s=TIMEOUT_S)
    plugin = plug(daemon)
    assert created(daemon, daemon.cri.run_pod("late", annotations=LATE)) == "plain"
    plugin.wait_for("Closed")
    # It comes back by itself, and is of use again.
    plugin.wait_for("Synchronize", count=2)
    assert created(daemon, daemon.cri.run_pod("next", annotations={"test/adjust": "env"})) == "adjusted"


def test_a_late_handler_with_keep_connected_stays_connected(key: str, start: Start, plug: Plug) -> None:
    daemon = start(request_timeout_s=TIMEOUT_S)
    plugin = plug(daemon, policy={"keep_connected": True}, events=WITHOUT_VALIDATION)
    assert created(daemon, daemon.cri.run_pod("late", annotations=LATE)) == "plain"
    if FACTS["failure-policy"][key] == YES:
        # Its handlers run one at a time, so until then the next request would be late as well.
        plugin.wait_for("Awake")
        assert created(daemon, daemon.cri.run_pod("next", annotations={"test/adjust": "env"})) == "adjusted"
        assert not plugin.lines("Closed"), plugin.story()
        assert "ignores failure_policy" not in plugin.story()
    else:
        plugin.wait_for("Closed")
        assert "containerd" in plugin.story() and "ignores failure_policy" in plugin.story()


def test_a_late_handler_with_fail_request_fails_the_request(key: str, start: Start, plug: Plug) -> None:
    daemon = start(request_timeout_s=TIMEOUT_S)
    plug(daemon, policy={"fail_request": True}, events=WITHOUT_VALIDATION)
    outcome = created(daemon, daemon.cri.run_pod("late", annotations=LATE))
    if FACTS["failure-policy"][key] == YES:
        assert "plugin 10-recorder failed to handle CreateContainer request" in outcome
    else:
        assert outcome == "plain"


def test_a_plugin_reconnects_to_a_killed_runtime(start: Start, plug: Plug) -> None:
    daemon = start()
    plugin = plug(daemon)
    pod = daemon.cri.run_pod("survivor")
    daemon.cri.run(pod, "main")
    daemon.kill()
    plugin.wait_for("Closed")
    daemon.start()
    second = plugin.wait_for("Synchronize", count=2, timeout_s=60)
    assert (second["pods"], second["containers"]) == (["survivor"], ["main"])
    assert created(daemon, daemon.cri.run_pod("after", annotations={"test/adjust": "env"})) == "adjusted"


def test_a_plugin_waits_for_a_missing_runtime(start: Start) -> None:
    waiting: list[PluginProcess] = []
    daemon = start(prepare=lambda new: waiting.append(PluginProcess(new.nri_socket)))
    with waiting[0] as plugin:
        plugin.wait_for("Synchronize", timeout_s=60)
        assert created(daemon, daemon.cri.run_pod("first", annotations={"test/adjust": "env"})) == "adjusted"


def test_a_killed_plugin_does_not_affect_creations(start: Start, plug: Plug) -> None:
    daemon = start()
    plugin = plug(daemon)
    plugin.process.kill()
    plugin.process.wait()
    assert created(daemon, daemon.cri.run_pod("alone", annotations={"test/adjust": "env"})) == "plain"
