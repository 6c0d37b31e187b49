"""Events of a plugin on a real containerd, from connection to disconnection, in order."""

from __future__ import annotations

import uuid

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from tests.real.conftest import Plug, Runtime
from tests.real.support_matrix import EVENTS, FACTS, NO, RUNTIMES, YES


def unique(name: str) -> str:
    """A pod name of this test's own."""
    return f"{name}-{uuid.uuid4().hex[:6]}"


def test_configure_reports_the_runtimes_name_and_version(runtime: Runtime) -> None:
    line = runtime.plugin.wait_for("Configure")
    assert line["runtime"] == "containerd"
    assert line["version"].lstrip("v").startswith(runtime.daemon.installed.version), line


def test_configure_reports_the_timeouts_where_documented(runtime: Runtime, start: object, plug: Plug) -> None:
    daemon = start(request_timeout_s=1.5)  # type: ignore[operator]
    message = plug(daemon).wait_for("Configure")["request_timeout_s"]
    # A plugin that receives no timeout assumes the default.
    expected = 1.5 if FACTS["timeouts"][runtime.key] == YES else 2.0
    assert message == expected


def test_a_plugin_knows_the_reported_or_inferred_nri_version(runtime: Runtime) -> None:
    assert runtime.plugin.wait_for("Configure")["nri_version"] == f"v{runtime.daemon.installed.nri_version}"


def test_a_late_plugin_receives_existing_pods_and_containers(runtime: Runtime, plug: Plug) -> None:
    cri = runtime.daemon.cri
    pod = cri.run_pod(unique("before"))
    cri.run(pod, "running")
    cri.create(pod, "created")
    exited = cri.run(pod, "exited", ["/bin/true"])
    runtime.plugin.wait_for("StopContainer", id=exited)
    cri.wait_exited(exited)
    line = plug(runtime.daemon, idx="20").wait_for("Synchronize")
    assert pod.config.metadata.name in line["pods"]
    assert {"running", "created"} <= set(line["containers"])
    assert "exited" not in line["containers"], "containerd leaves out what has exited"
    cri.remove_pod(pod.id)


def test_all_events_of_a_pod_and_container_arrive_in_order(runtime: Runtime) -> None:
    cri, name = runtime.daemon.cri, unique("order")
    pod = cri.run_pod(name, own_network=True)
    container = cri.run(pod, "main")
    cri.update(container, cpu_shares=512)
    try:
        cri.call("UpdatePodSandboxResources", pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod.id))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, "1.7 is older than this call"
    cri.stop(container)
    cri.remove(container)
    cri.remove_pod(pod.id)
    runtime.plugin.wait_for("RemovePodSandbox", pod=name)
    observed = [line["event"] for line in runtime.plugin.lines(pod=name)]
    assert observed == [row.name for row in EVENTS if row[runtime.key] == YES]


def test_a_plugin_sees_the_pods_address_at_its_start_where_documented(runtime: Runtime) -> None:
    name = unique("address")
    pod = runtime.daemon.cri.run_pod(name, own_network=True)
    ips = runtime.plugin.wait_for("RunPodSandbox", pod=name)["ips"]
    assert bool(ips) == (FACTS["pod-ips"][runtime.key] == YES), f"addresses: {ips}"
    runtime.daemon.cri.remove_pod(pod.id)


def test_the_exit_of_a_container_is_reported_as_a_stop(runtime: Runtime) -> None:
    name = unique("exit")
    pod = runtime.daemon.cri.run_pod(name)
    container_id = runtime.daemon.cri.run(pod, "short", ["/bin/sh", "-c", "exit 3"])
    stopped = runtime.plugin.wait_for("StopContainer", pod=name)
    assert stopped["container"] == "short"
    runtime.daemon.cri.wait_exited(container_id)
    runtime.daemon.cri.remove_pod(pod.id)
    assert len(runtime.plugin.lines("StopContainer", pod=name)) == 1


def test_create_container_has_the_kubelets_values(runtime: Runtime) -> None:
    cri, name = runtime.daemon.cri, unique("input")
    pod = cri.run_pod(name, labels={"app": "web"}, annotations={"note": "yes"})
    cri.create(pod, "main", env={"A": "b"}, annotations={"of-container": "1"}, memory_limit_in_bytes=64 << 20)
    message = runtime.plugin.wait_for("CreateContainer", pod=name)["message"]
    assert message["name"] == "main"
    assert message["annotations"]["of-container"] == "1"
    assert "A=b" in message["env"]
    assert message["linux"]["resources"]["memory"]["limit"]["value"] == str(64 << 20)
    assert message["args"][0] == "/bin/sleep"
    cri.remove_pod(pod.id)


def test_a_stopped_plugin_exits_with_0_and_receives_no_more_events(runtime: Runtime, plug: Plug) -> None:
    plugin = plug(runtime.daemon, idx="30")
    assert plugin.stop() == 0, plugin.story()
    name = unique("without")
    pod = runtime.daemon.cri.run_pod(name)
    runtime.plugin.wait_for("RunPodSandbox", pod=name)
    assert not plugin.lines("RunPodSandbox", pod=name)
    runtime.daemon.cri.remove_pod(pod.id)


@pytest.mark.parametrize("row", EVENTS, ids=lambda row: row.name)
def test_the_table_has_every_event_on_every_runtime(row: object) -> None:
    assert set(row.cells) <= {YES, NO}  # type: ignore[attr-defined]
    assert len(row.cells) == len(RUNTIMES)  # type: ignore[attr-defined]
