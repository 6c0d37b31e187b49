"""Our plugins under the Go reference's runtime: 0.12.5, and 0.6.1 for the old protocol."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peers.drivers import GoRuntime, PeerError
from tests.support.plugin_program import PluginProgram, plugin_program

POD = {"id": "pod0", "name": "p0", "uid": "u0", "namespace": "default", "annotations": {"zone": "a"}}
CONTAINER = {"id": "ctr0", "pod_sandbox_id": "pod0", "name": "c0", "env": ["PATH=/bin"]}
POD_EVENTS = ["RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox"]
CONTAINER_EVENTS = [
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
]
NEW = {"UpdatePodSandbox", "PostUpdatePodSandbox"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: unix sockets have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


@contextmanager
def runtime_and_plugin(
    folder: Path, body: str, *, release: str = "", state: dict[str, Any] | None = None, head: str = "", **options: Any
) -> Iterator[tuple[GoRuntime, PluginProgram]]:
    """The reference's runtime with one of our plugins, registered and synchronized."""
    file = folder / "plugin.py"
    file.write_text(
        "import nri, time, threading\n"
        + textwrap.dedent(head)
        + "\nclass Test(nri.Plugin):\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
        + "\nTest.main()\n"
    )
    with GoRuntime(release) as runtime:
        runtime.start(folder / "nri.sock", **options)
        if state:
            runtime.command("set_state", **state, timeout_s=60)
        with plugin_program(folder, "-u", file, "--idx", "10", "--socket-path", folder / "nri.sock") as plugin:
            runtime.wait_plugins(1, timeout_s=60)
            yield runtime, plugin


EVERYTHING = "\n".join(
    f"def {name}(self, {arguments}): print('{name}', pod.id{extra}, flush=True)"
    for name, arguments, extra in [
        ("run_pod_sandbox", "pod", ""),
        ("update_pod_sandbox", "pod, overhead, resources", ", resources.cpu.shares.value"),
        ("post_update_pod_sandbox", "pod", ""),
        ("stop_pod_sandbox", "pod", ""),
        ("remove_pod_sandbox", "pod", ""),
        ("create_container", "pod, container", ", container.id"),
        ("post_create_container", "pod, container", ", container.id"),
        ("start_container", "pod, container", ", container.id"),
        ("post_start_container", "pod, container", ", container.id"),
        ("update_container", "pod, container, resources", ", container.id, resources.cpu.shares.value"),
        ("post_update_container", "pod, container", ", container.id"),
        ("stop_container", "pod, container", ", container.id"),
        ("remove_container", "pod, container", ", container.id"),
    ]
)


@pytest.mark.parametrize("release", ["", "061"])
def test_every_event_arrives_in_order(folder: Path, release: str) -> None:
    events = [e for e in POD_EVENTS[:3] + CONTAINER_EVENTS + POD_EVENTS[3:] if not (release and e in NEW)]
    with runtime_and_plugin(folder, EVERYTHING, release=release) as (runtime, plugin):
        for name in events:
            container = None if name in POD_EVENTS else CONTAINER
            resources = {"cpu": {"shares": {"value": "7"}}} if name in ("UpdateContainer", "UpdatePodSandbox") else None
            runtime.event(name, POD, container, resources=resources)
        plugin.wait_text("remove_pod_sandbox")
        calls = [line.split() for line in plugin.text().splitlines() if "pod0" in line]
    snake = ["".join("_" + c.lower() if c.isupper() else c for c in e).lstrip("_") for e in events]
    assert [words[0] for words in calls] == snake
    for words in calls:
        if words[0] in ("update_container", "update_pod_sandbox"):
            assert words[-1] == "7", f"{words[0]} did not get the resources"


def test_events_that_an_old_runtime_does_not_know_are_not_subscribed(folder: Path) -> None:
    with runtime_and_plugin(folder, EVERYTHING, release="061") as (_, plugin):
        plugin.wait_text("does not know UpdatePodSandbox,PostUpdatePodSandbox: not subscribed")


ADJUST = """
    def create_container(self, pod, container):
        return (
            nri.Adjustment()
            .add_env("POD", pod.name).add_annotation("k", "v").remove_annotation("gone")
            .add_mount("/data", source="/src", type="bind", options=["rbind", "ro"])
            .set_memory_limit(1 << 26).set_cpu_shares(512).set_cpuset_cpus("0-1"),
            [nri.Update("other").set_cpu_shares(99)],
        )
"""


@pytest.mark.parametrize("release", ["", "061"])
def test_adjustments_and_updates_reach_the_runtime(folder: Path, release: str) -> None:
    with runtime_and_plugin(folder, ADJUST, release=release) as (runtime, _):
        reply = runtime.event("CreateContainer", POD, CONTAINER)
    adjust = reply["adjust"]
    assert adjust["env"] == [{"key": "POD", "value": "p0"}]
    assert adjust["annotations"] == {"k": "v", "-gone": ""}
    assert adjust["mounts"][0]["destination"] == "/data"
    assert adjust["linux"]["resources"]["memory"]["limit"] == {"value": "67108864"}
    assert adjust["linux"]["resources"]["cpu"]["cpus"] == "0-1"
    assert [u["container_id"] for u in reply["update"]] == ["other"]


@pytest.mark.parametrize("release", ["", "061"])
def test_update_and_stop_handlers_return_updates(folder: Path, release: str) -> None:
    body = """
        def update_container(self, pod, container, resources):
            return nri.Update(container).set_cpu_shares(resources.cpu.shares.value * 2)
        def stop_container(self, pod, container):
            return nri.Update("other").set_memory_limit(1 << 20)
    """
    with runtime_and_plugin(folder, body, release=release) as (runtime, _):
        updated = runtime.event("UpdateContainer", POD, CONTAINER, resources={"cpu": {"shares": {"value": "100"}}})
        stopped = runtime.event("StopContainer", POD, CONTAINER)
    assert updated["update"][-1]["linux"]["resources"]["cpu"]["shares"] == {"value": "200"}
    assert stopped["update"][0]["container_id"] == "other"


@pytest.mark.parametrize("release", ["", "061"])
def test_the_runtime_shows_the_error_text_of_a_handler(folder: Path, release: str) -> None:
    body = "def create_container(self, pod, container): raise nri.Reject('not on this node')"
    with runtime_and_plugin(folder, body, release=release) as (runtime, _):
        with pytest.raises(
            PeerError, match="rpc error: code = PermissionDenied desc = plugin 10-test refused: not on this node"
        ):
            runtime.event("CreateContainer", POD, CONTAINER)
        runtime.wait_plugins(1, exactly=True)


@pytest.mark.parametrize("release", ["", "061"])
def test_unsolicited_updates_reach_the_runtime_even_from_a_handler(folder: Path, release: str) -> None:
    body = """
        def post_start_container(self, pod, container):
            pending = self.runtime.update(nri.Update(container).set_cpu_shares(3))
            pending.add_done_callback(lambda p: print("result", len(p.result()), flush=True))
        @nri.every(3600)
        def once(self):
            print("background", self.runtime.update(nri.Update("bg").set_cpu_shares(4)).result(), flush=True)
    """
    with runtime_and_plugin(folder, body, release=release) as (runtime, plugin):
        plugin.wait_text("background []")
        runtime.event("PostStartContainer", POD, CONTAINER)
        plugin.wait_text("result 0")
        runtime.wait_event("updates", 2)
        got = [u["container_id"] for line in runtime.events("updates") for u in line["updates"]]
    assert got == ["bg", "ctr0"]


def test_failed_updates_are_returned(folder: Path) -> None:
    body = """
        def post_start_container(self, pod, container):
            pending = self.runtime.update(nri.Update("a").set_cpu_shares(3), nri.Update("b").set_cpu_shares(3))
            pending.add_done_callback(lambda p: print("failed", [u.container_id for u in p.result()], flush=True))
    """
    with runtime_and_plugin(folder, body, update_fail_ids=["b"]) as (runtime, plugin):
        runtime.event("PostStartContainer", POD, CONTAINER)
        plugin.wait_text("failed ['b']")


WAIT = """
    import os, sys
    def wait():
        while not os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "go")):
            time.sleep(0.01)
        print("answers late", flush=True)
"""


def go_on(folder: Path, plugin: PluginProgram) -> None:
    """Let the late plugin answer, and wait until it is about to."""
    (folder / "go").touch()
    plugin.wait_text("answers late")


def test_a_declared_failure_policy_keeps_a_late_plugin_and_fails_the_request(folder: Path) -> None:
    body = """
        failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)
        def create_container(self, pod, container):
            if container.name == "slow": wait()
            return nri.Adjustment().add_env("A", "1")
    """
    with runtime_and_plugin(folder, body, head=WAIT, request_timeout_ms=1000) as (runtime, plugin):
        with pytest.raises(PeerError, match="plugin 10-test failed to handle CreateContainer request"):
            runtime.event("CreateContainer", POD, {**CONTAINER, "name": "slow"})
        go_on(folder, plugin)
        assert runtime.event("CreateContainer", POD, CONTAINER)["adjust"]["env"] == [{"key": "A", "value": "1"}]
        assert "connection lost" not in plugin.text()


def test_without_a_policy_a_late_plugin_is_disconnected_and_reconnects(folder: Path) -> None:
    body = """
        def create_container(self, pod, container):
            if container.name == "slow": wait()
            return nri.Adjustment().add_env("A", "1")
    """
    with runtime_and_plugin(folder, body, head=WAIT, request_timeout_ms=1000) as (runtime, plugin):
        reply = runtime.event("CreateContainer", POD, {**CONTAINER, "name": "slow"})
        assert "env" not in reply["adjust"], "the reference continues without the late plugin"
        go_on(folder, plugin)
        plugin.wait_text("connection lost")
        runtime.wait_event("plugin", 2)
        runtime.wait_plugins(1)
        assert runtime.event("CreateContainer", POD, CONTAINER)["adjust"]["env"] == [{"key": "A", "value": "1"}]


def test_our_validator_refuses_adjustments_under_the_reference(folder: Path) -> None:
    body = """
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("SECRET" if container.name == "bad" else "FINE", "1")
        def validate_container_adjustment(self, request):
            if any(e.key == "SECRET" for e in request.adjust.env):
                raise nri.Reject("SECRET is not allowed")
    """
    with runtime_and_plugin(folder, body) as (runtime, _):
        assert runtime.event("CreateContainer", POD, CONTAINER)["adjust"]["env"][0]["key"] == "FINE"
        with pytest.raises(
            PeerError, match='validator "10-test" rejected container adjustment, reason: SECRET is not allowed'
        ):
            runtime.event("CreateContainer", POD, {**CONTAINER, "name": "bad"})


SYNC = """
    def synchronize(self, pods, containers):
        known = {pod.id for pod in pods}
        orphans = sum(container.pod_sandbox_id not in known for container in containers)
        print("synchronized", len(pods), len(containers), len({c.id for c in containers}), orphans, flush=True)
        return [nri.Update(c).set_cpu_shares(2) for c in containers[:3]]
"""


def test_existing_pods_and_containers_are_synchronized(folder: Path) -> None:
    with runtime_and_plugin(folder, SYNC, state={"pods": [POD], "containers": [CONTAINER]}) as (runtime, plugin):
        plugin.wait_text("synchronized 1 1 1 0")
        synchronized = runtime.wait_event("synchronized", 2)
        assert [u["container_id"] for u in synchronized["updates"]] == ["ctr0"]


def test_a_synchronization_of_10000_containers_in_parts_is_reassembled(folder: Path) -> None:
    state = {"pods": [], "containers": [], "generate": {"pods": 5000, "containers": 10_000, "bytes": 5000}}
    with runtime_and_plugin(folder, SYNC, state=state, request_timeout_ms=60_000) as (_, plugin):
        plugin.wait_text("synchronized 5000 10000 10000 0")


def test_the_plugin_reads_name_version_and_timeouts_of_the_reference(folder: Path) -> None:
    body = """
        def configure(self):
            r = self.runtime
            print("configured", r.name, r.nri_version, r.registration_timeout_s, r.request_timeout_s, flush=True)
        def run_pod_sandbox(self, pod): ...
    """
    with runtime_and_plugin(folder, body, registration_timeout_ms=7000, request_timeout_ms=3000) as (_, plugin):
        plugin.wait_text("7.0 3.0")
        assert "configured refruntime v0.12.5" in plugin.text()


def test_default_timeouts_apply_with_an_old_runtime(folder: Path) -> None:
    body = """
        def configure(self):
            print("configured", self.runtime.registration_timeout_s, self.runtime.request_timeout_s, flush=True)
        def run_pod_sandbox(self, pod): ...
    """
    with runtime_and_plugin(folder, body, release="061") as (_, plugin):
        plugin.wait_text("configured 5.0 2.0")


def test_a_name_that_the_reference_refuses_exits_without_a_loop(folder: Path) -> None:
    file = folder / "plugin.py"
    file.write_text("import nri\nclass Test(nri.Plugin):\n    def run_pod_sandbox(self, pod): ...\nTest.main()\n")
    with GoRuntime() as runtime:
        runtime.start(folder / "nri.sock")
        with plugin_program(
            folder, file, "--idx", "10", "--name", "a/b", "--socket-path", folder / "nri.sock"
        ) as plugin:
            assert plugin.exit_code() == 2
            assert "contains invalid character" in plugin.text()


@pytest.mark.parametrize("release", ["", "061"])
def test_a_pre_installed_plugin_is_launched_by_the_reference(folder: Path, release: str) -> None:
    import sys

    plugins, log = folder / "plugins", folder / "log"
    plugins.mkdir()
    program = plugins / "05-pre"
    program.write_text(
        f"#!{sys.executable}\nimport nri\nclass Pre(nri.Plugin):\n    log_file = {str(log)!r}\n"
        "    def create_container(self, pod, container):\n"
        "        return nri.Adjustment().add_env('PRE', self.name).add_env('CONFIG', self.config)\nPre.main()\n"
    )
    program.chmod(0o755)
    conf = folder / "conf.d"
    conf.mkdir()
    (conf / "05-pre.conf").write_text("dropped in")
    with GoRuntime(release) as runtime:
        runtime.start(folder / "nri.sock", plugin_path=str(plugins), config_path=str(conf))
        env = runtime.event("CreateContainer", POD, CONTAINER)["adjust"]["env"]
    assert env == [{"key": "PRE", "value": "pre"}, {"key": "CONFIG", "value": "dropped in"}], (
        log.read_text() if log.exists() else env
    )


def test_two_python_plugins_conflict_with_the_references_message(folder: Path) -> None:
    body = "def create_container(self, pod, container): return nri.Adjustment().add_env('A', '1')"
    with runtime_and_plugin(folder, body) as (runtime, _):
        second = folder / "again"
        second.mkdir()
        with plugin_program(second, folder / "plugin.py", "--idx", "20", "--socket-path", folder / "nri.sock"):
            runtime.wait_plugins(2)
            with pytest.raises(PeerError, match='plugins "20-test" and "10-test" both tried to set Env A'):
                runtime.event("CreateContainer", POD, CONTAINER)
