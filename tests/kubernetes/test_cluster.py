"""A node in a real API server: calls of kubectl, and features that require an API."""

from __future__ import annotations

import json
import time

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import NODE
from tests.kubernetes.node import condition, one_container
from tests.kubernetes.pods import UNTIL_TERM, container, pod
from tests.real.plugin_process import PluginProcess
from tests.support.waiting import wait_for

SERVE = "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www"


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> str:
    """The name of a pod that prints a line and serves."""
    return cluster.run(pod("server", container("main", f"echo said; {SERVE}")))


def test_a_node_becomes_ready_and_reports_its_runtime(cluster: Cluster, runtime_name: str) -> None:
    deadline = time.monotonic() + 60
    while condition(status := cluster.api.get("node", NODE)["status"], "Ready") != "True":
        assert time.monotonic() < deadline, json.dumps(status["conditions"], indent=1)
        time.sleep(0.5)
    names = {"containerd": "containerd://2.4", "engine": "nri-engine://"}
    assert status["nodeInfo"]["containerRuntimeVersion"].startswith(names[runtime_name]), status["nodeInfo"]


def test_kubectl_logs_prints_the_output_of_a_container(cluster: Cluster, server: str) -> None:
    assert cluster.api.kubectl("logs", server).stdout == "said\n"


def test_kubectl_exec_has_separate_streams_and_the_exit_code(cluster: Cluster, server: str) -> None:
    completed = cluster.exec(server, "/bin/sh", "-c", "echo out; echo err >&2; exit 6")
    assert (completed.stdout, completed.returncode) == ("out\n", 6)
    assert completed.stderr.splitlines()[0] == "err"


def test_kubectl_exec_passes_the_end_of_stdin(cluster: Cluster, server: str) -> None:
    sent = "".join(f"line {number}\n" for number in range(30_000))
    completed = cluster.exec(server, "/bin/cat", stdin=sent)
    assert (len(completed.stdout), completed.stderr, completed.returncode) == (len(sent), "", 0)
    assert completed.stdout == sent


def test_kubectl_attach_reads_a_container_until_its_exit(cluster: Cluster) -> None:
    name = cluster.run(pod("talker", container("main", "sleep 4; echo late"), restartPolicy="Never"))
    assert "late" in cluster.api.kubectl("attach", name, "-c", "main").stdout


def test_kubectl_cp_copies_a_file_in_both_directions(cluster: Cluster, server: str, tmp_path: object) -> None:
    completed = cluster.exec(server, "/bin/sh", "-c", "echo copied > /tmp/file")
    assert completed.returncode == 0, completed.stderr
    cluster.api.kubectl("cp", f"{server}:/tmp/file", f"{tmp_path}/file")
    cluster.api.kubectl("cp", f"{tmp_path}/file", f"{server}:/tmp/back")
    assert cluster.exec(server, "/bin/cat", "/tmp/back").stdout == "copied\n"


def test_configmaps_and_secrets_are_mounted_and_updated(cluster: Cluster) -> None:
    def settings(value: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": value}}

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"word": "mellon"}}
    cluster.api.apply(settings("before"), secret)
    mounts = [{"name": "settings", "mountPath": "/settings"}, {"name": "hidden", "mountPath": "/hidden"}]
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "hidden", "secret": {"secretName": "hidden"}},
    ]
    name = cluster.run(pod("configured", container("main", volumeMounts=mounts), volumes=volumes))
    read = ("/bin/sh", "-c", "cat /settings/key; echo; cat /hidden/word")
    assert cluster.exec(name, *read).stdout.split() == ["before", "mellon"]
    cluster.api.apply(settings("after"))
    wait_for(
        lambda: cluster.exec(name, *read).stdout.split() == ["after", "mellon"],
        "the new configuration did not come",
        timeout_s=60,
    )


def test_a_pod_is_resized_in_place_and_plugins_are_notified(cluster: Cluster) -> None:
    first = {"cpu": "100m", "memory": "64Mi"}
    with PluginProcess(cluster.runtime.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        name = cluster.run(pod("resized", container(resources={"requests": first, "limits": first})))
        before = cluster.container_id(name)
        second = {"cpu": "200m", "memory": "96Mi"}
        change = {"spec": {"containers": [{"name": "main", "resources": {"requests": second, "limits": second}}]}}
        cluster.api.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(change))
        cluster.wait(name, lambda status: resized(status, "96Mi"), "resized")
        assert cluster.cgroup(name, "memory", "memory.limit_in_bytes", "memory.max") == str(96 << 20)
        assert cluster.cgroup(name, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "20000"
        assert cluster.container_id(name) == before
        plugin.wait_for("PostUpdateContainer", pod=name, id=before)


def resized(status: dict[str, object], memory: str) -> bool:
    """Whether kubelet reports that limit for a pod's container."""
    limits = one_container(status, "main").get("resources", {}).get("limits", {})
    return bool(limits.get("memory") == memory)


def test_a_runtime_class_selects_a_handler_and_an_unknown_handler_is_reported(cluster: Cluster) -> None:
    def runtime_class(name: str, handler: str) -> dict[str, object]:
        return {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": handler,
        }

    cluster.api.apply(runtime_class("known", "runc"), runtime_class("unknown", "no-such-handler"))
    cluster.run(pod("classed", runtimeClassName="known"))
    odd = pod("odd", runtimeClassName="unknown", nodeName=NODE)
    cluster.api.apply(odd)
    deadline = time.monotonic() + 60
    selector = "involvedObject.name=odd,reason=FailedCreatePodSandBox"
    while not (items := cluster.api.get("events", "--field-selector", selector)["items"]):
        assert time.monotonic() < deadline, "there is no event about it"
        time.sleep(0.5)
    assert "no-such-handler" in items[0]["message"]
    cluster.api.kubectl("delete", "pod", "odd", "--force", "--grace-period=0")


def test_a_deleted_pod_ends_in_time_and_leaves_the_api(cluster: Cluster) -> None:
    script = f"echo up; {UNTIL_TERM.replace('exit 0', 'echo told; sleep 1; exit 0')}"
    name = cluster.run(pod("deleted", container("main", script)))
    begin = time.monotonic()
    cluster.api.kubectl("delete", "pod", name)
    assert 1 <= time.monotonic() - begin < 30
    assert cluster.api.kubectl("get", "pod", name, check=False).returncode == 1
