"""Pods under a real kubelet: start, composition and end follow their manifests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.conftest import RunPod
from tests.kubernetes.pods import UNTIL_TERM, container, pod
from tests.support.needs import need_tool
from tools.runtimes.mounts import mount, unmount_all


def test_a_static_pod_runs_with_an_address_and_without_restarts(run: RunPod) -> None:
    static = run(pod("plain"))
    status = static.wait_ready()
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("10."), status
    assert [row["restartCount"] for row in status["containerStatuses"]] == [0]
    assert static.run("/bin/hostname").strip() == static.name


def test_a_pod_with_host_network_is_in_the_nodes_namespace(run: RunPod) -> None:
    static = run(pod("of-the-node", hostNetwork=True))
    static.wait_ready()
    assert os.readlink(f"/proc/{static.pid()}/ns/net") == os.readlink("/proc/self/ns/net")


def test_containers_share_network_and_volume_but_not_processes(run: RunPod) -> None:
    volume = {"name": "shared", "emptyDir": {}}
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    static = run(
        pod(
            "pair",
            container("writer", f"echo written > /shared/file; {UNTIL_TERM}", volumeMounts=mounts),
            container("reader", volumeMounts=mounts),
            volumes=[volume],
        )
    )
    static.wait_ready()
    assert static.run("/bin/cat", "/shared/file", name="reader").strip() == "written"
    network = [static.run("/bin/readlink", "/proc/self/ns/net", name=name) for name in ("writer", "reader")]
    assert network[0] == network[1]
    assert "writer" not in static.run("/bin/ps", name="reader")
    assert static.run("/bin/readlink", "/proc/1/ns/pid", name="writer") != static.run(
        "/bin/readlink", "/proc/1/ns/pid", name="reader"
    )


def test_containers_share_processes_on_request(run: RunPod) -> None:
    static = run(
        pod(
            "together",
            container("first", f": of-the-first; {UNTIL_TERM}"),
            container("second"),
            shareProcessNamespace=True,
        )
    )
    static.wait_ready()
    assert "of-the-first" in static.run("/bin/ps", name="second")


def test_init_containers_run_in_order_before_the_main_container(run: RunPod) -> None:
    mounts = [{"name": "log", "mountPath": "/log"}]
    write = "echo {} >> /log/order"
    static = run(
        pod(
            "ordered",
            container("main", f"{write.format('main')}; {UNTIL_TERM}", volumeMounts=mounts),
            initContainers=[
                container("one", f"sleep 0.3; {write.format('one')}", volumeMounts=mounts),
                container("two", write.format("two"), volumeMounts=mounts),
            ],
            volumes=[{"name": "log", "emptyDir": {}}],
        )
    )
    static.wait_ready()
    assert static.run("/bin/cat", "/log/order").split() == ["one", "two", "main"]


def test_a_sidecar_runs_alongside_the_main_container(run: RunPod) -> None:
    static = run(pod("sided", container(), initContainers=[container("side", restartPolicy="Always")]))
    static.wait_ready()
    assert "running" in static.container("side")["state"]


def test_a_failing_container_is_restarted_and_its_exit_is_reported(run: RunPod) -> None:
    static = run(pod("failing", container("main", "echo last words > /dev/termination-log; exit 7")))
    status = static.wait_restarted()
    row = status["containerStatuses"][0]
    ended = (row["lastState"] or row["state"])["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Error", "last words\n")


def test_a_container_above_its_memory_limit_is_reported_as_oom_killed(run: RunPod) -> None:
    # tail keeps what it reads until its input ends.
    greedy = container("main", "tail /dev/zero", resources={"limits": {"memory": "24Mi"}})
    static = run(pod("greedy", greedy, restartPolicy="Never"))
    status = static.wait(lambda status: status.get("phase") == "Failed", "failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_pod_with_restart_policy_never_succeeds(run: RunPod) -> None:
    static = run(pod("short", container("main", "echo done"), restartPolicy="Never"))
    status = static.wait(lambda status: status.get("phase") == "Succeeded", "succeeded")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert ended["startedAt"] <= ended["finishedAt"]


def test_a_post_start_hook_runs_before_the_container_counts_as_started(run: RunPod) -> None:
    hook = {"postStart": {"exec": {"command": ["/bin/sh", "-c", "echo hooked > /tmp/hook"]}}}
    static = run(pod("hooked", container(lifecycle=hook)))
    static.wait_ready()
    assert static.run("/bin/cat", "/tmp/hook").strip() == "hooked"


def test_the_environment_has_values_and_fields_of_the_pod(run: RunPod) -> None:
    env = [
        {"name": "PLAIN", "value": "yes"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    static = run(pod("told", container(env=env)))
    status = static.wait_ready()
    lines = static.run("/bin/env").splitlines()
    assert {"PLAIN=yes", f"POD={static.name}", f"ADDRESS={status['podIP']}"} <= set(lines)


def test_a_container_has_the_user_privileges_and_file_system_of_its_security_context(run: RunPod) -> None:
    context = {
        "runAsUser": 1234,
        "runAsGroup": 2345,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    static = run(pod("modest", container(securityContext=context), securityContext={"fsGroup": 3456}))
    static.wait_ready()
    assert static.run("/bin/id").split()[:2] == ["uid=1234", "gid=2345"]
    assert "3456" in static.run("/bin/id", "-G").split()
    status = dict(
        line.split(":\t", 1) for line in static.run("/bin/cat", "/proc/self/status").splitlines() if ":\t" in line
    )
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    mounts = static.run("/bin/cat", "/proc/self/mounts").splitlines()
    root = next(line.split() for line in mounts if line.split()[1] == "/")
    assert "ro" in root[3].split(",")


def test_a_privileged_container_has_the_nodes_devices(run: RunPod) -> None:
    static = run(pod("mighty", container(securityContext={"privileged": True})))
    static.wait_ready()
    assert static.run("/bin/ls", "/dev/loop-control").strip() == "/dev/loop-control"


def test_a_pod_has_the_kubelets_host_name_hosts_file_and_resolver(run: RunPod) -> None:
    aliases = [{"ip": "10.9.8.7", "hostnames": ["friend"]}]
    dns = {"nameservers": ["10.1.2.3"], "searches": ["some.where"], "options": [{"name": "ndots", "value": "3"}]}
    static = run(pod("named", hostname="other", hostAliases=aliases, dnsPolicy="None", dnsConfig=dns))
    static.wait_ready()
    assert static.run("/bin/hostname").strip() == "other"
    assert "10.9.8.7\tfriend" in static.run("/bin/cat", "/etc/hosts")
    resolver = static.run("/bin/cat", "/etc/resolv.conf").splitlines()
    assert {"nameserver 10.1.2.3", "search some.where", "options ndots:3"} <= set(resolver)


def test_a_pod_has_its_requested_sysctls(run: RunPod) -> None:
    sysctls = [{"name": "net.ipv4.ip_local_port_range", "value": "20000 30000"}]
    static = run(pod("tuned", securityContext={"sysctls": sysctls}))
    static.wait_ready()
    assert static.run("/bin/cat", "/proc/sys/net/ipv4/ip_local_port_range").split() == ["20000", "30000"]


def test_mounts_of_the_node_reach_a_container_as_requested(run: RunPod, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part/file").write_text("of the node")
    volumes = [{"name": "node", "hostPath": {"path": str(tmp_path)}}]
    mounts = [
        {"name": "node", "mountPath": "/whole", "readOnly": True},
        {"name": "node", "mountPath": "/part", "subPath": "part"},
    ]
    static = run(pod("mounted", container(volumeMounts=mounts), volumes=volumes))
    static.wait_ready()
    assert static.run("/bin/cat", "/whole/part/file") == "of the node"
    static.run("/bin/cp", "/part/file", "/part/written")
    assert (tmp_path / "part/written").read_text() == "of the node"
    options = {line.split()[1]: line.split()[3] for line in static.run("/bin/cat", "/proc/self/mounts").splitlines()}
    assert "ro" in options["/whole"].split(",")
    assert "rw" in options["/part"].split(",")


def test_a_later_mount_of_the_node_reaches_a_container_with_propagation(run: RunPod, shared: Path) -> None:
    volumes = [{"name": "node", "hostPath": {"path": str(shared)}}]
    mounts = [{"name": "node", "mountPath": "/node", "mountPropagation": "HostToContainer"}]
    deaf = container("deaf", volumeMounts=[{"name": "node", "mountPath": "/node"}])
    static = run(pod("listening", container(volumeMounts=mounts), deaf, volumes=volumes))
    static.wait_ready()
    assert mount("tmpfs", shared / "late", "")
    (shared / "late/file").touch()
    assert static.run("/bin/ls", "/node/late").split() == ["file"]
    assert static.run("/bin/ls", "/node/late", name="deaf").split() == []


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder of the node whose mounts are passed on."""
    assert mount("tmpfs", tmp_path, "")
    subprocess.run([need_tool("mount"), "--make-shared", str(tmp_path)], check=True, timeout=10)
    (tmp_path / "late").mkdir()
    yield tmp_path
    unmount_all(tmp_path)


def test_a_missing_image_is_reported_and_the_other_container_runs(run: RunPod) -> None:
    static = run(pod("half", container(), container("absent", image="localhost/nri/absent:1")))
    static.wait(
        lambda status: any(
            row["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull"
            for row in status.get("containerStatuses", [])
        ),
        "told to lack an image",
    )
    static.wait_running()
