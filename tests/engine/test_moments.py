"""The moments at which plugins are told of pods and containers, and what an error does then.

At each event the test looks at the machine: what is there already, and what is not yet.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import OciRuntime
from nri.engine.engine import Engine
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import CommandFailed
from nri.engine.support.kernel import is_mount_point
from nri.errors import NriError
from tests.engine.node import FOREVER, POLITE, Node, Recorder, pause

WHOLE_LIFE = ["create", "post_create", "start", "post_start", "stop", "remove"]


def leases(node: Node) -> int:
    return len([*(node.folder / "ipam").rglob("10.*")])


def test_a_pods_events_come_while_its_network_is_there(node: Node) -> None:
    plugin: Recorder = node.plugin()
    engine = node.engine
    messages: dict[str, Any] = {}

    def look(event: str) -> Any:
        def see(pod: Any, _: Any) -> None:
            paths = {row.type: row.path for row in pod.linux.namespaces}
            states = [entry.record.state for entry in engine.inventory.pods() if entry.id == pod.id]
            on_disk = (node.config.root / "records/pods" / f"{pod.id}.json").exists()
            messages[event] = (list(pod.ips), sorted(paths), leases(node), states, on_disk)
            assert all(is_mount_point(Path(path)) for path in paths.values())

        return see

    for event in ("run_pod", "stop_pod", "remove_pod"):
        plugin.on[event] = look(event)
    pod = node.pod(network=pb.POD)
    assert engine.inventory.pod(pod).record.state is PodState.READY
    node.run(pod)
    ips = engine.inventory.pod(pod).record.ips
    assert len(ips) == 1 and ips[0].startswith("10.231.79.")
    engine.pod_removal.stop(pod)
    engine.pod_removal.remove(pod)
    assert messages["run_pod"] == (ips, ["ipc", "network", "uts"], 1, [], True)
    assert messages["stop_pod"] == (ips, ["ipc", "network", "uts"], 1, [PodState.STOPPING], True)
    assert messages["remove_pod"] == (ips, [], 0, [PodState.REMOVING], True)
    assert plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"]
    order = [event for event, _ in plugin.events]
    assert order.index("remove") > order.index("stop_pod") > order.index("stop")
    node.assert_nothing_left()


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_a_containers_events_come_at_their_moments(node: Node, handler: str) -> None:
    plugin: Recorder = node.plugin()
    engine = node.engine
    messages: dict[str, dict[str, Any]] = {}

    def look(event: str) -> Any:
        def see(pod: Any, container: Any) -> None:
            bundle = node.config.state / "bundles" / container.id
            rows = [entry.record for entry in engine.inventory.containers() if entry.id == container.id]
            log = node.folder / "logs/pod/c.log"
            messages[event] = {
                "id": container.id,
                "pod": container.pod_sandbox_id,
                "config.json": (bundle / "config.json").exists(),
                "runtime": _runtime_state(engine, handler, container.id),
                "state": rows[0].state if rows else None,
                "alive": container.pid > 0 and os.path.exists(f"/proc/{container.pid}"),
                "ran": log.exists() and "ready" in log.read_text(),
                "root": is_mount_point(node.config.root / "images/snapshots" / container.id / "merged"),
                "args": list(container.args),
                "exit": (container.exit_code, container.status_reason),
            }

        return see

    for event in WHOLE_LIFE:
        plugin.on[event] = look(event)
    pod = node.pod(handler=handler)
    container_id = node.run(pod, command=POLITE)
    node.wait_for(lambda: "ready" in (node.folder / "logs/pod/c.log").read_text(), "the container's first word")
    engine.container_removal.stop(container_id, 20)
    assert engine.inventory.container(container_id).record.exit_code == 3
    engine.container_removal.remove(container_id)
    node.remove(pod)
    assert plugin.of("c") == WHOLE_LIFE
    assert {row["id"] for row in messages.values()} == {container_id} and {row["pod"] for row in messages.values()} == {
        pod
    }

    def of(event: str, *keys: str) -> tuple[Any, ...]:
        return tuple(messages[event][key] for key in keys)

    # On the whole spec, before anything of the runtime exists.
    assert of("create", "args", "root", "config.json", "runtime", "state") == (list(POLITE), True, False, None, None)
    assert of("post_create", "config.json", "runtime", "state", "alive", "ran") == (
        True, "created", ContainerState.CREATED, True, False,
    )  # fmt: skip
    # After the process is made, before it runs.
    assert of("start", "runtime", "alive", "ran") == ("created", True, False)
    assert of("post_start", "runtime", "state", "alive") == ("running", ContainerState.RUNNING, True)
    # After it has stopped; with how it ended.
    assert of("stop", "runtime", "state", "exit") == (None, ContainerState.EXITED, (3, "Error"))
    # Before anything of it is deleted.
    assert of("remove", "root", "state") == (True, ContainerState.REMOVING)
    node.assert_nothing_left()


def _runtime_state(engine: Engine, handler: str, identity: str) -> str | None:
    try:
        return engine.machinery.runtime(handler).state(identity).status
    except NriError:
        return None


def test_what_a_plugin_adjusts_is_in_the_container(node: Node) -> None:
    plugin: Recorder = node.plugin()
    plugin.on["create"] = lambda pod, _: (
        nri.Adjustment().add_env("POD", pod.name).set_memory_limit(48 << 20).add_annotation("who", "me")
    )
    pod = node.pod()
    container_id = node.run(pod, command=("sh", "-c", "echo pod=$POD; sleep 1000"))
    log = node.folder / "logs/pod/c.log"
    node.wait_for(lambda: "stdout F pod=pod" in log.read_text(), "what the container says")
    assert node.cgroup(container_id, "memory", "memory.limit_in_bytes") == str(48 << 20)
    assert node.engine.inventory.container(container_id).record.resources["memory_limit_in_bytes"] == str(48 << 20)
    spec = json.loads((node.config.state / "bundles" / container_id / "config.json").read_text())
    assert spec["annotations"]["who"] == "me" and "POD=pod" in spec["process"]["env"]


def test_a_plugin_that_refuses_a_pod_fails_it_and_is_told_of_its_end(node: Node) -> None:
    plugin: Recorder = node.plugin()

    def refuse(*_: Any) -> None:
        raise nri.Reject("not here")

    plugin.on["run_pod"] = refuse
    with pytest.raises(NriError, match=r"10-recorder.*not here"):
        node.pod(network=pb.POD)
    assert plugin.events == [("run_pod", "pod"), ("stop_pod", "pod"), ("remove_pod", "pod")]
    assert node.engine.inventory.pods() == []
    node.assert_nothing_left()
    del plugin.on["run_pod"]
    node.pod(network=pb.POD)  # its name is free


def test_a_plugin_that_refuses_a_container_fails_it_and_those_that_were_asked_are_told(node: Node) -> None:
    before: Recorder = node.plugin(index="05", name="before")
    after: Recorder = node.plugin(index="15", name="after")
    plugin: Recorder = node.plugin()

    def refuse(*_: Any) -> None:
        raise nri.Reject("no room")

    plugin.on["create"] = refuse
    pod = node.pod()
    with pytest.raises(NriError, match=r"10-recorder.*no room"):
        node.create(pod)
    assert before.of("c") == plugin.of("c") == ["create", "stop", "remove"]
    assert after.of("c") == ["stop", "remove"]
    assert node.engine.inventory.containers() == []
    node.remove(pod)
    node.assert_nothing_left()


def test_a_container_that_the_oci_runtime_refuses_fails_its_start_with_the_cause(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id = node.create(pod, command=("/nonesuch",))
    assert plugin.of("c") == ["create"]
    with pytest.raises(NriError, match="nonesuch"):
        node.engine.container_start.start(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.state, record.exit_code, record.reason) == (ContainerState.EXITED, 128, "StartError")
    node.engine.container_removal.remove(container_id)
    assert plugin.of("c") == ["create", "stop", "remove"]
    assert node.engine.inventory.containers() == []
    node.run(pod)  # its name is free
    node.remove(pod)
    node.assert_nothing_left()


def test_a_plugin_that_refuses_a_start_ends_the_container(node: Node) -> None:
    plugin: Recorder = node.plugin()

    def refuse(*_: Any) -> None:
        raise nri.Reject("not now")

    plugin.on["start"] = refuse
    pod = node.pod()
    container_id = node.create(pod, command=("sh", "-c", "echo ran"))
    with pytest.raises(NriError, match="not now"):
        node.engine.container_start.start(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.state, record.exit_code, record.reason) == (ContainerState.EXITED, 128, "StartError")
    assert "not now" in record.message
    assert (node.folder / "logs/pod/c.log").read_text() == ""
    assert plugin.of("c") == ["create", "post_create", "start", "stop"]
    node.engine.container_removal.remove(container_id)
    assert plugin.of("c")[-2:] == ["stop", "remove"]


@pytest.mark.parametrize("event", ["post_create", "post_start", "stop", "remove", "stop_pod", "remove_pod"])
def test_an_error_after_the_fact_stops_nothing(node: Node, event: str) -> None:
    plugin: Recorder = node.plugin()

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    plugin.on[event] = fail
    pod = node.pod()
    container_id = node.run(pod)
    node.engine.container_removal.stop(container_id)
    node.engine.container_removal.remove(container_id)
    node.remove(pod)
    assert plugin.of("c") == WHOLE_LIFE and plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"]


def test_an_update_is_asked_for_before_and_told_after(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id = node.run(pod)
    names: list[str] = []
    for event in ("update", "post_update"):
        plugin.on[event] = lambda *_: names.append(node.cgroup(container_id, "memory", "memory.limit_in_bytes"))
    before = node.cgroup(container_id, "memory", "memory.limit_in_bytes")
    node.engine.resource_updates.update_container(
        container_id, pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20)
    )
    assert names == [before, str(64 << 20)]
    assert node.engine.inventory.container(container_id).record.resources["memory_limit_in_bytes"] == str(64 << 20)


def test_an_update_that_is_refused_changes_nothing(node: Node) -> None:
    plugin: Recorder = node.plugin()

    def refuse(*_: Any) -> None:
        raise nri.Reject("keep it")

    plugin.on["update"] = refuse
    container_id = node.run(node.pod())
    before = node.cgroup(container_id, "memory", "memory.limit_in_bytes")
    with pytest.raises(NriError, match="keep it"):
        node.engine.resource_updates.update_container(
            container_id, pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20)
        )
    assert node.cgroup(container_id, "memory", "memory.limit_in_bytes") == before
    assert "post_update" not in plugin.of("c")


def test_an_update_that_the_runtime_refuses_is_an_error_and_is_not_told_as_done(node: Node) -> None:
    plugin: Recorder = node.plugin()
    container_id = node.run(node.pod())
    with pytest.raises(CommandFailed, match="runc update"):
        node.engine.resource_updates.update_container(container_id, pb.LinuxContainerResources(cpuset_cpus="4000"))
    assert plugin.of("c")[-1] == "update"
    assert "cpuset_cpus" not in node.engine.inventory.container(container_id).record.resources


def test_resources_of_a_pod_are_asked_for_kept_and_told(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    anys: list[Any] = []
    plugin.on["update_pod"] = lambda *_: anys.append(dict(node.engine.inventory.pod(pod).record.resources))
    plugin.on["post_update_pod"] = lambda shown, _: anys.append(shown.linux.pod_resources.memory.limit.value)
    linux_container_resources = pb.LinuxContainerResources(memory_limit_in_bytes=1 << 30)
    node.engine.resource_updates.update_pod(pod, None, linux_container_resources)
    assert anys == [{}, 1 << 30]
    assert node.engine.inventory.pod(pod).record.resources == {"resources": {"memory_limit_in_bytes": str(1 << 30)}}


def test_the_end_of_a_container_is_told_once_however_it_came(node: Node) -> None:
    plugin: Recorder = node.plugin()
    engine = node.engine
    pod = node.pod()
    by_itself = node.run(pod, "itself", ("sh", "-c", "exit 7"))
    node.wait_exited(by_itself)
    by_signal = node.run(pod, "signal")
    os.kill(engine.inventory.container(by_signal).record.pid, 9)
    node.wait_exited(by_signal)
    stopped = node.run(pod, "stopped")
    for _ in range(2):
        engine.container_removal.stop(stopped, 0)
    node.run(pod, "pod")
    node.create(pod, "created")
    removed = node.run(pod, "removed")
    engine.container_removal.remove(removed)
    engine.pod_removal.stop(pod)
    engine.pod_removal.remove(pod)
    for name in ("itself", "signal", "stopped", "removed"):
        assert plugin.of(name).count("stop") == plugin.of(name).count("remove") == 1, name
        assert plugin.of(name)[-2:] == ["stop", "remove"]
    assert plugin.of("created") == ["create", "post_create", "stop", "remove"]
    assert [event for event, name in plugin.events if name == "pod"].count("stop") == 1


def test_a_pod_that_is_stopped_by_force_makes_stop_events_for_its_containers(node: Node) -> None:
    plugin: Recorder = node.plugin()
    codes: dict[str, int] = {}
    plugin.on["stop"] = lambda _, container: codes.update({container.name: container.exit_code})
    pod, other = node.pod(), node.pod("other")
    node.run(pod, "deaf", ("sh", "-c", "trap '' TERM; while true; do sleep 0.05; done"))
    node.run(pod, "sleeps")
    node.create(pod, "created")
    node.run(other, "stays")
    node.engine.pod_removal.stop(pod)
    assert [name for event, name in plugin.events if event == "stop_pod"] == ["pod"]
    exit_handler = plugin.events[plugin.events.index(("post_start", "stays")) + 1 :]
    assert sorted(exit_handler[:3]) == [("stop", "created"), ("stop", "deaf"), ("stop", "sleeps")]
    assert exit_handler[3:] == [("stop_pod", "pod")]
    assert codes["deaf"] == 137
    assert (
        node.engine.inventory.container(node.engine.inventory.containers(other)[0].id).record.state
        is ContainerState.RUNNING
    )


def test_a_program_that_is_over_at_once_has_its_events_in_order(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    runtime = node.engine.machinery.runtime("runc")
    start = runtime.start
    runtime.start = lambda identity: (start(identity), pause(0.5))[0]  # type: ignore[method-assign,func-returns-value]
    container_id = node.run(pod, command=("true",))
    node.wait_exited(container_id)
    record = node.engine.inventory.container(container_id).record
    assert (record.exit_code, record.reason) == (
        0,
        "Completed",
    ) and record.started_at_ns <= record.finished_at_ns + 10**9
    assert plugin.of("c") == ["create", "post_create", "start", "post_start", "stop"]


def test_programs_that_are_over_before_their_start_is_are_started(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    for number in range(12):
        container_id = node.run(pod, f"c{number}", ("true",))
        node.wait_exited(container_id)
        assert node.engine.inventory.container(container_id).record.reason == "Completed"
        assert plugin.of(f"c{number}") == ["create", "post_create", "start", "post_start", "stop"]


def test_without_plugins_nothing_is_asked_and_requests_pass_as_they_are(node: Node) -> None:
    engine = node.start(replace(node.config, nri=replace(node.config.nri, disable=True)))
    assert not os.path.exists(node.config.nri.socket_path)
    container_id = node.run(node.pod(), command=("sh", "-c", "exit 4"))
    node.wait_exited(container_id)
    other = node.run(engine.inventory.pods()[0].id, "other")
    engine.resource_updates.update_container(
        other, pb.LinuxContainerResources(cpu_shares=512, memory_limit_in_bytes=1 << 26)
    )
    assert node.cgroup(other, "cpu", "cpu.shares") == "512"
    assert node.cgroup(other, "memory", "memory.limit_in_bytes") == str(1 << 26)


def test_an_update_that_no_plugin_answers_is_done_as_it_came(node: Node) -> None:
    node.plugin()
    container_id = node.run(node.pod())
    requested = pb.LinuxContainerResources(cpu_shares=300, cpu_quota=50000, cpu_period=100000, cpuset_cpus="0")
    node.engine.resource_updates.update_container(container_id, requested)
    assert node.cgroup(container_id, "cpu", "cpu.shares") == "300"
    assert node.cgroup(container_id, "cpu", "cpu.cfs_quota_us") == "50000"
    assert node.cgroup(container_id, "cpuset", "cpuset.cpus") == "0"


def test_a_pod_whose_containers_share_processes_shows_them_to_each_other(node: Node) -> None:
    pod = node.pod(network=pb.POD, pid=pb.POD)
    node.run(pod, "one")
    two = node.run(pod, "two", ("sh", "-c", "(sleep 0.5 &); sleep 1000"))

    def both() -> bool:
        stdout = node.engine.running_containers.exec_sync(two, ["ps"], 20).stdout
        return stdout.count(b"sleep 1000000") == 1 and b"/pause" in stdout

    node.wait_for(both, "the programs of both, in place of the runtime's own process")

    def orphan() -> bool:
        stdout = node.engine.running_containers.exec_sync(two, ["ps"], 20).stdout
        return b"sleep 0.5" in stdout or b"[sleep]" in stdout  # as a zombie, which no one else takes away

    node.wait_for(lambda: not orphan(), "the orphan's end")
    os.kill(node.engine.inventory.pod(pod).record.pid, 9)
    node.wait_for(lambda: node.engine.inventory.pod(pod).record.state is PodState.STOPPING, "the pod's end")
    with pytest.raises(NriError, match="stopping"):
        node.create(pod, "three")
    node.remove(pod)
    node.assert_nothing_left()


def test_what_holds_a_pod_has_ended_when_the_runtime_is_to_delete_it(node: Node) -> None:
    wrapper, log = node.folder / "runc", node.folder / "seen"
    alive = f"grep -s ^State: /proc/$(cat {node.folder}/state/bundles/$last/pid)/status | grep -v Z >> {log}"
    look = f'for last; do :; done\ncase " $* " in *" delete "*) {alive};; esac'
    wrapper.write_text(f'#!/bin/sh\n{look}\nexec runc "$@"\n')
    wrapper.chmod(0o755)
    node.start(replace(node.config, runtimes={"runc": OciRuntime(str(wrapper))}))
    pod = node.pod(pid=pb.POD)
    node.run(pod)
    node.engine.pod_removal.stop(pod)
    assert log.read_text() == "", "a runtime that has to kill it waits longer than it takes to end"
    node.remove(pod)


def test_a_second_pod_or_container_of_one_name_is_refused(node: Node) -> None:
    config = node.pod_config()
    pod = node.engine.pod_creation.run(config)
    with pytest.raises(NriError, match="already used by pod"):
        node.engine.pod_creation.run(config)
    node.create(pod)
    with pytest.raises(NriError, match="already used by container"):
        node.create(pod)
    assert len(node.engine.inventory.pods()) == len(node.engine.inventory.containers()) == 1


def test_calls_of_the_field_that_come_twice_are_no_errors(node: Node) -> None:
    for _ in range(2):
        node.engine.pod_removal.stop("abcdef")
        node.engine.pod_removal.remove("abcdef")
        node.engine.container_removal.stop("abcdef")
        node.engine.container_removal.remove("abcdef")
    pod = node.pod()
    container_id = node.run(pod, command=FOREVER)
    for _ in range(2):
        node.engine.container_removal.stop(container_id, 0.1)
        node.engine.pod_removal.stop(pod)
    for _ in range(2):
        node.engine.container_removal.remove(container_id)
        node.engine.pod_removal.remove(pod)
    node.assert_nothing_left()


def test_a_frozen_container_is_stopped(node: Node) -> None:
    plugin: Recorder = node.plugin()
    pod = node.pod()
    container_id = node.run(pod)
    runtime = node.engine.machinery.runtime("runc")
    subprocess.run([runtime.binary, "--root", str(runtime.root), "pause", container_id], check=True, timeout=20)
    node.engine.container_removal.stop(container_id)
    assert node.engine.inventory.container(container_id).record.exit_code == 137 and plugin.of("c")[-1] == "stop"
    node.remove(pod)
