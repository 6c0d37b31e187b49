"""Real Go plugins, on the newest release and on 0.6.1, in our adaptation: all their features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.api.events import EVENTS
from nri.errors import ConflictError, PluginError, PluginTimeout
from nri.testing import FakeRuntime, make_container, make_pod
from tests.peers.drivers import GoPlugin, install_plugin
from tests.support.waiting import PATIENCE_S, wait_for

RELEASES = ["", "061"]
NAMES = {"": "v0.12.5", "061": "v0.6.1"}


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    with FakeRuntime(socket_path=str(tmp_path / "nri.sock")) as runtime:
        yield runtime


@pytest.fixture(params=RELEASES, ids=NAMES.values())
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def joined(runtime: FakeRuntime, *labels: str) -> None:
    assert runtime.adaptation.ready(labels, PATIENCE_S), f"not all of {labels} take part: {runtime.plugins}"


def every_event(runtime: FakeRuntime, pod: m.PodSandbox, container: m.Container) -> None:
    runtime.run_pod_sandbox(pod)
    runtime.create_container(pod, container)
    for name in ("post_create_container", "start_container", "post_start_container"):
        getattr(runtime, name)(pod, container)
    runtime.update_container(pod, container, m.LinuxResources())
    runtime.post_update_container(pod, container)
    runtime.update_pod_sandbox(pod, m.LinuxResources(), m.LinuxResources())
    runtime.post_update_pod_sandbox(pod)
    runtime.stop_container(pod, container)
    runtime.remove_container(pod, container)
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)


def test_a_go_plugin_receives_every_event_of_its_release_in_order(runtime: FakeRuntime, release: str) -> None:
    with GoPlugin(runtime.socket_path, release=release) as plugin:
        joined(runtime, "10-ref")
        every_event(runtime, make_pod(), make_container())
        plugin.wait_event("RemovePodSandbox")
        calls = [line["event"] for line in plugin.events() if line["event"] in {spec.rpc for spec in EVENTS}]
    expected = [
        "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
        "UpdateContainer", "PostUpdateContainer", "UpdatePodSandbox", "PostUpdatePodSandbox", "StopContainer",
        "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
    ]  # fmt: skip
    if release == "":
        expected.insert(2, "ValidateContainerAdjustment")
    else:
        expected = [name for name in expected if "UpdatePodSandbox" not in name]
    assert calls == expected


def test_an_old_plugin_logs_one_warning_for_each_unsupported_event(
    runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    with GoPlugin(runtime.socket_path, release="061"):
        joined(runtime, "10-ref")
        for _ in range(3):
            runtime.start_container()
            runtime.run_pod_sandbox()
    warnings = [record.message for record in caplog.records if "StateChange" in record.message]
    assert [text.rsplit(" ", 1)[1] for text in warnings] == ["StartContainer", "RunPodSandbox"]


def test_configure_passes_name_version_and_timeouts(runtime: FakeRuntime) -> None:
    with GoPlugin(runtime.socket_path) as plugin:
        configure = plugin.wait_event("Configure")
        assert (configure["runtime"], configure["version"], configure["config"]) == ("fake", "v1.0.0", "")
        started = plugin.wait_event("started")
        assert started["registration_timeout_ms"] == 5000
        assert started["request_timeout_ms"] == 2000
        assert started["runtime_nri_version"] == "v0.12.5"


def test_synchronize_passes_the_existing_pods_and_containers(tmp_path: Path, release: str) -> None:
    pod = make_pod()
    containers = [make_container(pod=pod) for _ in range(3)]
    path = str(tmp_path / "nri.sock")
    with (
        FakeRuntime(socket_path=path, pods=[pod], containers=containers) as runtime,
        GoPlugin(path, release=release, full=True) as plugin,
    ):
        joined(runtime, "10-ref")
        state = plugin.wait_event("Synchronize")
    assert [entry["id"] for entry in state["pods"]] == [pod.id]
    assert [entry["id"] for entry in state["containers"]] == [entry.id for entry in containers]


def test_updates_from_synchronize_are_applied(tmp_path: Path) -> None:
    pod = make_pod()
    container = make_container(pod=pod)
    path = str(tmp_path / "nri.sock")
    update = {"container_id": container.id, "linux": {"resources": {"cpu": {"shares": {"value": "77"}}}}}
    with (
        FakeRuntime(socket_path=path, pods=[pod], containers=[container]) as runtime,
        GoPlugin(path, on={"Synchronize": {"update": [update]}}),
    ):
        wait_for(lambda: runtime.updates, "the update")
        assert runtime.updates[0].container_id == container.id
        assert container.linux.resources.cpu.shares.value == 77


def test_a_plugin_adjusts_and_updates_containers(runtime: FakeRuntime, release: str) -> None:
    other = make_container()
    runtime.create_container(make_pod(), other)
    step = {
        "adjust": {"env": [{"key": "FROM", "value": "go"}], "annotations": {"k": "v"}},
        "update": [{"container_id": other.id, "linux": {"resources": {"cpu": {"shares": {"value": "5"}}}}}],
    }
    script = {"events": ["CreateContainer"], "on": {"CreateContainer": step}}
    with GoPlugin(runtime.socket_path, release=release, **script):
        joined(runtime, "10-ref")
        reply = runtime.create_container(make_pod(), make_container(env={"OLD": "1"}))
    assert reply.env == {"FROM": "go"}
    assert reply.annotations == {"k": "v"}
    assert reply.updates[other.id].cpu_shares == 5


def test_a_later_plugin_sees_the_changes_of_an_earlier_one(runtime: FakeRuntime) -> None:
    first = {
        "events": ["CreateContainer"],
        "on": {"CreateContainer": {"adjust": {"env": [{"key": "A", "value": "1"}]}}},
    }
    second = {"events": ["CreateContainer"], "full": True}
    path = runtime.socket_path
    with GoPlugin(path, idx="20", name="late", **second) as late, GoPlugin(path, idx="10", name="early", **first):
        joined(runtime, "10-early", "20-late")
        runtime.create_container(make_pod(), make_container(env={"OLD": "1"}))
        assert late.wait_event("CreateContainer")["container"]["env"] == ["OLD=1", "A=1"]


def test_conflicting_plugins_fail_with_the_references_message(runtime: FakeRuntime) -> None:
    script = {"events": ["CreateContainer"], "on": {"CreateContainer": {"adjust": {"annotations": {"k": "v"}}}}}
    path = runtime.socket_path
    with GoPlugin(path, idx="00", name="foo", **script), GoPlugin(path, idx="10", name="bar", **script):
        joined(runtime, "00-foo", "10-bar")
        with pytest.raises(ConflictError) as caught:
            runtime.create_container()
    assert str(caught.value) == 'plugins "10-bar" and "00-foo" both tried to set Annotations k'


def test_a_plugins_error_fails_the_request_and_keeps_the_plugin(runtime: FakeRuntime, release: str) -> None:
    script = {"events": ["StartContainer"], "on": {"StartContainer": [{"error": "boom"}, {}]}}
    with GoPlugin(runtime.socket_path, release=release, **script):
        joined(runtime, "10-ref")
        with pytest.raises(PluginError, match=r"plugin 10-ref: boom"):
            runtime.start_container()
        runtime.start_container()
        assert runtime.health("10-ref").state == "active"


def test_a_late_reply_costs_only_its_event(runtime: FakeRuntime, release: str) -> None:
    script = {"events": ["StartContainer"], "on": {"StartContainer": [{"delay_ms": 1500}, {}]}}
    with GoPlugin(runtime.socket_path, release=release, **script):
        joined(runtime, "10-ref")
        runtime.timeout(0.1)
        runtime.start_container()
        assert runtime.health("10-ref").state == "late"
        runtime.timeout(20)
        runtime.start_container()
        assert runtime.health("10-ref").state == "active"


def test_a_late_reply_disconnects_the_plugin_in_reference_mode(tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    script = {"events": ["StartContainer"], "on": {"StartContainer": {"delay_ms": 2000}}}
    with FakeRuntime(socket_path=path, compat="reference") as runtime, GoPlugin(path, **script) as plugin:
        joined(runtime, "10-ref")
        runtime.timeout(0.1)
        runtime.start_container()
        assert runtime.health("10-ref").state == "gone"
        plugin.wait_event("closed")


@pytest.mark.parametrize("keep", [True, False])
def test_a_declared_failure_policy_fails_unanswered_requests(tmp_path: Path, keep: bool) -> None:
    path = str(tmp_path / "nri.sock")
    script = {
        "events": ["StartContainer"],
        "on": {"StartContainer": {"delay_ms": 3000}},
        "failure_policy": {"fail_request": True, "keep_connected": keep},
    }
    with FakeRuntime(socket_path=path, compat="reference") as runtime, GoPlugin(path, **script):
        joined(runtime, "10-ref")
        runtime.timeout(0.1)
        with pytest.raises(PluginTimeout, match="plugin 10-ref failed to handle StartContainer request: "):
            runtime.start_container()
        assert runtime.health("10-ref").state == ("late" if keep else "gone")


def test_a_killed_plugin_is_synchronized_again_after_its_return(runtime: FakeRuntime, release: str) -> None:
    path = runtime.socket_path
    with GoPlugin(path, release=release) as plugin:
        joined(runtime, "10-ref")
        plugin.kill()
        wait_for(lambda: runtime.health("10-ref").state == "gone", "that its death was noticed")
        runtime.create_container()  # nobody waits for the dead
    with GoPlugin(path, release=release) as plugin:
        joined(runtime, "10-ref")
        assert plugin.wait_event("Synchronize")["containers"] == 1


def test_a_plugin_killed_during_an_event_disconnects_only_itself(runtime: FakeRuntime) -> None:
    path = runtime.socket_path
    dying = {"events": ["StartContainer"], "on": {"StartContainer": {"exit": 3}}}
    with GoPlugin(path, idx="10", name="dying", **dying), GoPlugin(path, idx="20", name="next") as following:
        joined(runtime, "10-dying", "20-next")
        runtime.start_container()
        following.wait_event("StartContainer")
        assert runtime.health("10-dying").state == "gone"


def test_unsolicited_updates_reach_the_runtime_and_failures_are_returned(runtime: FakeRuntime, release: str) -> None:
    runtime.create_container(make_pod(), make_container(id="good"))
    runtime.create_container(make_pod(), make_container(id="bad"))
    runtime.refuse_updates.add("bad")
    updates = [
        {"container_id": text, "linux": {"resources": {"cpu": {"shares": {"value": "9"}}}}} for text in ("good", "bad")
    ]
    with GoPlugin(runtime.socket_path, release=release) as plugin:
        joined(runtime, "10-ref")
        result = plugin.update(updates)
    assert [text["container_id"] for text in result["failed"]] == ["bad"]
    assert runtime.containers["good"].linux.resources.cpu.shares.value == 9


def test_an_update_inside_a_handler_does_not_deadlock(runtime: FakeRuntime, release: str) -> None:
    """The reference holds a lock there, and the handler runs into its timeout."""
    runtime.create_container(make_pod(), make_container(id="other"))
    update = {"container_id": "other", "linux": {"resources": {"cpu": {"shares": {"value": "9"}}}}}
    script = {"events": ["StartContainer"], "on": {"StartContainer": {"updates": [update]}}}
    with GoPlugin(runtime.socket_path, release=release, **script) as plugin:
        joined(runtime, "10-ref")
        runtime.start_container()
        assert plugin.wait_event("update_result")["ok"]
        assert runtime.health("10-ref").state == "active"


def test_a_validator_sees_the_result_and_can_refuse_it(runtime: FakeRuntime) -> None:
    path = runtime.socket_path
    adjusting = {
        "events": ["CreateContainer"],
        "on": {"CreateContainer": {"adjust": {"env": [{"key": "A", "value": "1"}]}}},
    }
    refusing = {
        "events": ["ValidateContainerAdjustment"],
        "on": {"ValidateContainerAdjustment": [{"error": "no A here"}, {}]},
        "full": True,
    }
    with (
        GoPlugin(path, idx="10", name="adjust", **adjusting),
        GoPlugin(path, idx="90", name="check", **refusing) as check,
    ):
        joined(runtime, "10-adjust", "90-check")
        with pytest.raises(Exception, match='validator "90-check" rejected container adjustment, reason: no A here'):
            runtime.create_container(make_pod(), make_container(id="c1", env={"OLD": "1"}))
        runtime.create_container(make_pod(), make_container())
        requests = check.wait_event("ValidateContainerAdjustment")
    assert requests["container"]["env"] == ["OLD=1"]
    assert requests["adjust"]["env"] == [{"key": "A", "value": "1"}]
    assert requests["owners"]["owners"]["c1"]["compound"]["6"]["owners"] == {"A": "10-adjust"}
    assert requests["plugins"] == [{"name": "adjust", "index": "10"}]


def test_a_second_plugin_with_the_same_index_and_name_is_refused(runtime: FakeRuntime) -> None:
    path = runtime.socket_path
    with GoPlugin(path):
        joined(runtime, "10-ref")
        with GoPlugin(path) as second:
            assert "plugin 10-ref is connected already" in second.wait_event("closed")["error"]
        joined(runtime, "10-ref")


def test_a_full_node_is_synchronized_in_parts(tmp_path: Path) -> None:
    pods = [make_pod() for _ in range(100)]
    containers = [make_container(pod=pods[n % 100], annotations={"padding": "x" * 1500}) for n in range(10_000)]
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path, pods=pods, containers=containers) as runtime, GoPlugin(path) as plugin:
        joined(runtime, "10-ref")
        assert plugin.wait_event("Synchronize")["containers"] == 10_000


def test_an_old_plugin_without_support_for_parts_is_reported(tmp_path: Path) -> None:
    containers = [make_container(annotations={"padding": "x" * 9000}) for _ in range(1000)]
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path, containers=containers) as runtime, GoPlugin(path, release="061"):
        wait_for(lambda: any(row.state == "gone" for row in runtime.plugins), "that it was closed")
        assert "plugin does not handle split sync requests" in runtime.health("10-ref").last_error


def test_a_plugin_is_launched_with_its_configuration(tmp_path: Path, release: str) -> None:
    log = tmp_path / "plugin.log"
    folder, config = tmp_path / "plugins", tmp_path / "conf.d"
    install_plugin(folder, "15", "installed", release=release, log=log)
    config.mkdir()
    (config / "15-installed.conf").write_text("some: configuration\n")
    with FakeRuntime(plugin_path=str(folder), plugin_config_path=str(config)) as runtime:
        assert runtime.adaptation.ready(["15-installed"])
        row = runtime.health("15-installed")
        assert (row.kind, row.state) == ("pre-connected", "active")
        runtime.create_container()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    configure = next(line for line in lines if line["event"] == "Configure")
    assert configure["config"] == "some: configuration\n"
    assert any(line["event"] == "CreateContainer" for line in lines)


def test_a_launched_plugin_is_restarted_when_it_dies(tmp_path: Path) -> None:
    log = tmp_path / "plugin.log"
    folder = tmp_path / "plugins"
    install_plugin(folder, "15", "installed", log=log, on={"StartContainer": {"exit": 4}})
    with FakeRuntime(plugin_path=str(folder), plugin_config_path=str(tmp_path)) as runtime:
        runtime.start_container()
        wait_for(lambda: runtime.health("15-installed").restarts == 1, "the restart")
        assert runtime.adaptation.ready(["15-installed"], PATIENCE_S)
        runtime.create_container()


def test_shutdown_is_sent_at_the_stop_of_the_runtime(tmp_path: Path) -> None:
    log = tmp_path / "plugin.log"
    folder = tmp_path / "plugins"
    install_plugin(folder, "15", "installed", log=log)
    with FakeRuntime(plugin_path=str(folder), plugin_config_path=str(tmp_path)):
        pass
    assert any(json.loads(line)["event"] == "Shutdown" for line in log.read_text().splitlines())
