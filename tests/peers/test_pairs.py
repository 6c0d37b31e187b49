"""The reference programs against each other, before our code is compared with them."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.build import peer
from tests.peers.drivers import GoPlugin, GoRuntime, LineProcess, PeerError, install_plugin

pytestmark = pytest.mark.interop

POD = {"id": "pod0", "name": "p0", "uid": "u0", "namespace": "default"}
CONTAINER = {"id": "ctr0", "pod_sandbox_id": "pod0", "name": "c0"}
POD_EVENTS = ("RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox")
CONTAINER_EVENTS = (
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
)
ALL_EVENTS = {"": POD_EVENTS + CONTAINER_EVENTS, "061": ("RunPodSandbox", "StopPodSandbox", *CONTAINER_EVENTS)}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: unix sockets have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


@contextlib.contextmanager
def running(folder: Path, release: str = "", **options: object) -> Iterator[tuple[GoRuntime, Path]]:
    with GoRuntime(release) as runtime:
        runtime.start(folder / "nri.sock", **options)
        yield runtime, folder / "nri.sock"


@pytest.mark.parametrize("plugin_release", ["", "061"])
@pytest.mark.parametrize("runtime_release", ["", "061"])
def test_every_event_of_the_runtime_arrives_in_order(folder: Path, runtime_release: str, plugin_release: str) -> None:
    oldest = "061" if "061" in (runtime_release, plugin_release) else ""
    names = ALL_EVENTS[oldest]
    with (
        running(folder, runtime_release) as (runtime, socket),
        GoPlugin(socket, release=plugin_release, events=list(names)) as plugin,
    ):
        runtime.wait_plugins(1)
        for name in names:
            runtime.event(name, POD, None if name in POD_EVENTS else CONTAINER)
        plugin.wait_event(names[-1])
        events = [line["event"] for line in plugin.events() if line["event"] in names]
        assert events == list(names), plugin.tail()


def test_adjustments_of_two_plugins_are_merged(folder: Path) -> None:
    with running(folder) as (runtime, socket):
        adjust = [{"env": [{"key": "A", "value": "1"}]}, {"annotations": {"k": "v"}}]
        with (
            GoPlugin(socket, name="one", idx="10", on={"CreateContainer": {"adjust": adjust[0]}}),
            GoPlugin(socket, name="two", idx="20", on={"CreateContainer": {"adjust": adjust[1]}}),
        ):
            assert runtime.wait_plugins(2) == ["10-one", "20-two"]
            reply = runtime.event("CreateContainer", POD, CONTAINER)
            assert reply["adjust"]["env"] == [{"key": "A", "value": "1"}]
            assert reply["adjust"]["annotations"] == {"k": "v"}


def test_a_failing_handler_fails_the_event_with_its_text(folder: Path) -> None:
    with running(folder) as (runtime, socket), GoPlugin(socket, on={"CreateContainer": [{"error": "boom"}, {}]}):
        runtime.wait_plugins(1)
        with pytest.raises(PeerError, match="boom"):
            runtime.event("CreateContainer", POD, CONTAINER)
        runtime.event("CreateContainer", POD, CONTAINER)


def test_a_late_plugin_is_disconnected_unless_its_policy_keeps_it(folder: Path) -> None:
    late = {"StartContainer": [{"delay_ms": 4000}, {}]}
    failure_policy = {"fail_request": True, "keep_connected": True}
    with (
        running(folder, request_timeout_ms=1000) as (runtime, socket),
        GoPlugin(socket, name="dropped", idx="10", on=late),
        GoPlugin(socket, name="kept", idx="20", on=late, failure_policy=failure_policy) as plugin,
    ):
        runtime.wait_plugins(2)
        with pytest.raises(PeerError, match="kept"):
            runtime.event("StartContainer", POD, CONTAINER)
        runtime.wait_plugins(1, exactly=True)
        runtime.event("StartContainer", POD, CONTAINER)
        plugin.wait_event("StartContainer", count=2)


@pytest.mark.parametrize("release", ["", "061"])
def test_unsolicited_updates_reach_the_runtime_and_failures_return_to_the_plugin(folder: Path, release: str) -> None:
    update = {"container_id": "ctr7", "linux": {"resources": {"cpu": {"shares": {"value": "5"}}}}}
    with (
        running(folder, release, update_fail_ids=["ctr7"]) as (runtime, socket),
        GoPlugin(socket, release=release, events=["StartContainer"]) as plugin,
    ):
        runtime.wait_plugins(1)
        assert plugin.update([update])["failed"] == [update]
        assert runtime.wait_event("updates")["updates"] == [update]


def test_a_large_state_is_synchronized_in_parts(folder: Path) -> None:
    with running(folder) as (runtime, socket):
        runtime.command("set_state", generate={"pods": 50, "containers": 3000, "bytes": 2000})
        with GoPlugin(socket) as plugin:
            line = plugin.wait_event("Synchronize")
            assert (line["pods"], line["containers"]) == (50, 3000)


def test_a_plugin_reconnects_after_a_restart_of_the_runtime(folder: Path) -> None:
    with GoPlugin(folder / "nri.sock", reconnect=True, reconnect_delay_ms=50) as plugin:
        for times in (1, 2):
            with running(folder) as (runtime, _):
                runtime.wait_plugins(1)
                plugin.wait_event("started", count=times)


@pytest.mark.parametrize("release", ["", "061"])
def test_a_pre_installed_plugin_is_launched_with_its_configuration(folder: Path, release: str) -> None:
    log = folder / "log"
    install_plugin(folder / "plugins", "05", "pre", release=release, log=log, events=["StartContainer"])
    (folder / "conf").mkdir()
    (folder / "conf" / "05-pre.conf").write_text("a: 1\n")
    paths = {"plugin_path": str(folder / "plugins"), "config_path": str(folder / "conf")}
    with running(folder, release, **paths) as (runtime, _):
        runtime.event("StartContainer", POD, CONTAINER)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["config"] for line in lines if line["event"] == "Configure"] == ["a: 1\n"]
    assert [line["container"]["id"] for line in lines if line["event"] == "StartContainer"] == ["ctr0"]


def test_concurrent_events_are_answered_under_their_ids(folder: Path) -> None:
    with running(folder) as (runtime, socket), GoPlugin(socket, on={"StartContainer": {"delay_ms": 20}}):
        runtime.wait_plugins(1)
        waits = [runtime.begin_event("StartContainer", POD, {**CONTAINER, "id": f"c{i}"}) for i in range(8)]
        assert all(wait()["ok"] for wait in waits)


def test_the_oracle_returns_the_references_merge() -> None:
    plugins = [
        {"name": "b", "index": "20", "adjust": {"env": [{"key": "A", "value": "2"}]}},
        {"name": "a", "index": "10", "adjust": {"env": [{"key": "A", "value": "1"}]}},
    ]
    with LineProcess([peer("oracle")]) as oracle:
        oracle.send({"id": 1, "op": "create", "pod": POD, "container": {**CONTAINER, "linux": {}}, "plugins": plugins})
        answer = oracle.wait_for(lambda line: line.get("id") == 1)
        assert answer["expect"]["error"] == 'plugins "20-b" and "10-a" both tried to set Env A'
        oracle.send({"id": 2, "op": "spec", "spec": {}, "adjust": {"env": [{"key": "A", "value": "1"}]}})
        answer = oracle.wait_for(lambda line: line.get("id") == 2)
        assert answer["expect"]["spec"]["process"]["env"] == ["A=1"]


@pytest.mark.parametrize("client_name", ["ttrpcpeer", "rustpeer"])
@pytest.mark.parametrize("server_name", ["ttrpcpeer", "rustpeer"])
def test_the_ttrpc_programs_understand_each_other(folder: Path, server_name: str, client_name: str) -> None:
    socket = folder / "e.sock"
    with LineProcess([peer(server_name), "server", "-socket", socket]) as server:
        server.wait_event("listening")
        with LineProcess([peer(client_name), "client", "-socket", socket]) as client:
            big = client.ask({"payload_size": 4_000_000, "metadata": {"k": ["v", "w"]}, "timeout_ms": 10_000})
            assert big["intact"], "the payload came back changed"
            assert big["metadata"] == {"k": ["v", "w"]}
            assert big["timeout_ns"] > 0, "the server did not see the deadline"
            assert client.ask({"code": 5, "message": "gone"})["code"] == 5
            assert client.ask({"delay_ms": 500, "timeout_ms": 50})["deadline"]
        server.kill()
