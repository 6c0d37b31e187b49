"""Default settings of all pods and containers, checked in real containers."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri import config
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import ContainerConfig, EngineConfig
from nri.engine.lifecycle.inventory import read_spec
from nri.errors import ConfigError, NriError
from tests.engine.node import Node
from tests.engine.test_user_namespaces import FIRST, container, inside, mapped

USER = {"security_context": {"run_as_user": {"value": 1000}}}


def settings(node: Node, text: str) -> None:
    """Start the engine with these keys of the table ``containers``."""
    containers: ContainerConfig = config.read(
        EngineConfig, [config.Source("engine.toml", f"[containers]\n{text}", "toml")]
    ).containers
    node.start(replace(node.config, containers=containers))


def run(node: Node, text: str, *, network: int = pb.NODE, handler: str = "runc", **more: Any) -> str:
    """The output of a shell's commands in a new container."""
    pod = node.pod(network=network, handler=handler)
    return inside(node, node.run(pod, **more), text)


PORTS = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
PINGS = "cat /proc/sys/net/ipv4/ping_group_range"
LISTEN = "(echo | nc -l -p 80 >/dev/null; echo $?) & sleep 0.3; echo | nc 127.0.0.1 80; wait"
#: The socket with which current programs ping; busybox's needs a capability.
ICMP = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)"


def can_ping(node: Node, pod: str, user: int) -> bool:
    """Whether a user of the node may ping in a pod's network."""
    path = node.engine.inventory.pod(pod).record.namespace_paths["network"]
    users = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    argv = ["nsenter", f"--net={path}", "setpriv", *users, "/usr/bin/python3", "-c", ICMP]
    return subprocess.run(argv, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_every_user_can_bind_low_ports_and_ping(node: Node, handler: str) -> None:
    pod = node.pod(network=pb.POD, handler=handler)
    output = inside(node, node.run(pod, linux=USER), f"{PORTS}; {PINGS}; {LISTEN}")
    assert output.split() == ["0", "0", "2147483647", "0"]
    assert can_ping(node, pod, 1000)


def test_users_of_a_pod_with_a_user_namespace_can_bind_low_ports_and_ping(node: Node) -> None:
    config_ = mapped(node)
    pod = node.engine.pod_creation.run(config_)
    request = container(node, config_, "c", run_as_user=pb.Int64Value(value=1000))
    container_id = node.engine.container_creation.create(pod, request)
    node.engine.container_start.start(container_id)
    assert inside(node, container_id, f"{PORTS}; {LISTEN}").split() == ["0", "0"]
    assert can_ping(node, pod, FIRST + 1000)


def test_low_ports_and_ping_can_be_disabled(node: Node) -> None:
    settings(node, "enable_unprivileged_ports = false\nenable_unprivileged_icmp = false")
    pod = node.pod(network=pb.POD)
    assert inside(node, node.run(pod), f"{PORTS}; {PINGS}").split() == ["1024", "1", "0"]
    assert not can_ping(node, pod, 1000)


def test_requested_sysctls_override_configured_and_built_in_sysctls(node: Node) -> None:
    sysctls = ["net.ipv4.ip_unprivileged_port_start=500", "net.ipv4.ip_local_port_range=2000 3000"]
    settings(node, f"default_sysctls = {[*sysctls, 'kernel.shm_rmid_forced=1']}")
    text = f"{PORTS}; cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shm_rmid_forced"
    assert run(node, text, network=pb.POD).split() == ["500", "2000", "3000", "1"]
    config_ = node.pod_config("asks", network=pb.POD)
    config_.linux.sysctls["net/ipv4/ip_unprivileged_port_start"] = "700"
    pod = node.engine.pod_creation.run(config_)
    assert inside(node, node.run(pod), PORTS) == "700"


def test_a_pod_on_the_nodes_network_keeps_the_nodes_values(node: Node) -> None:
    before = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    settings(node, 'default_sysctls = ["net.ipv4.ip_local_port_range=2000 3000"]')
    assert run(node, "cat /proc/sys/net/ipv4/ip_local_port_range").split() == before


# --- limits, environment, capabilities, mounts, devices, annotations ---

LIMITS = "ulimit -Sc; ulimit -Hc; ulimit -Sn; ulimit -Hn"
CAPABILITIES = "grep -E 'CapEff' /proc/self/status | cut -f2"
#: The bit of each capability of the tests in a set of the kernel.
CHOWN, SETUID, NET_ADMIN = 1 << 0, 1 << 7, 1 << 12


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_default_ulimits_are_set(node: Node, handler: str) -> None:
    settings(node, 'default_ulimits = ["nofile=1000:2000", "core=-1"]')
    assert run(node, LIMITS, handler=handler).split() == ["unlimited", "unlimited", "1000", "2000"]


def test_image_and_request_override_default_variables(node: Node) -> None:
    settings(node, 'default_env = ["PROXY=http://p:1", "PATH=/ours", "MINE=no"]')
    config_ = node.container_config("c", ["/bin/sleep", "1000"])
    config_.envs.add(key="MINE", value=b"yes")
    pod = node.pod()
    container_id = node.engine.container_creation.create(pod, config_)
    environment = node.engine.inventory.container(container_id).spec["process"]["env"]
    assert {"PROXY=http://p:1", "MINE=yes"} <= {*environment}
    assert [entry for entry in environment if entry.startswith("PATH=")] == ["PATH=/bin"], "the image's"


def test_configured_default_capabilities_replace_the_built_in_ones(node: Node) -> None:
    settings(node, 'default_capabilities = ["CHOWN", "cap_setuid"]')
    assert int(run(node, CAPABILITIES), 16) == CHOWN | SETUID
    changes = {"add_capabilities": ["NET_ADMIN"], "drop_capabilities": ["CHOWN"]}
    requested = {"security_context": {"capabilities": changes}}
    assert int(inside(node, node.run(node.pod("asks"), linux=requested), CAPABILITIES), 16) == NET_ADMIN | SETUID


def test_an_empty_list_of_default_capabilities_grants_none(node: Node) -> None:
    settings(node, "default_capabilities = []")
    assert int(run(node, CAPABILITIES), 16) == 0


def test_default_mounts_and_devices_are_in_every_container(node: Node) -> None:
    folder, requested_folder = node.folder / "certificates", node.folder / "own"
    folder.mkdir()
    requested_folder.mkdir()
    (folder / "ca").write_text("trusted")
    mounts = [f"{folder}:/certificates:ro", f"{folder}:/mine"]
    settings(node, f'default_mounts = {mounts}\nadditional_devices = ["/dev/null:/dev/sink:r"]')
    config_ = node.container_config("c")
    config_.mounts.add(container_path="/mine/", host_path=str(requested_folder))
    container_id = node.engine.container_creation.create(node.pod(), config_)
    node.engine.container_start.start(container_id)
    text = (
        "cat /certificates/ca; echo; touch /certificates/x 2>&1 | grep -c Read-only; ls /mine; cat /dev/sink; echo $?"
    )
    assert inside(node, container_id, text).split() == ["trusted", "1", "0"]


@pytest.mark.parametrize("text", ['default_mounts = ["/nowhere/x:/x"]', 'additional_devices = ["/dev/nowhere"]'])
def test_a_missing_default_mount_or_device_is_an_error_that_names_the_key(node: Node, text: str) -> None:
    settings(node, text)
    pod = node.pod()
    with pytest.raises(NriError, match=rf'containers\.{text.partition(" ")[0]} ".*nowhere.*": '):
        node.create(pod)
    node.remove(pod)
    node.assert_nothing_left()


def test_default_annotations_do_not_replace_the_engines_annotations(node: Node) -> None:
    settings(node, 'default_annotations = {"example.com/team" = "a", "io.kubernetes.cri.container-name" = "x"}')
    container_id = node.create(node.pod())
    annotations = read_spec(node.config.state / "bundles" / container_id)["annotations"]
    assert (annotations["example.com/team"], annotations["io.kubernetes.cri.container-name"]) == ("a", "c")


# --- a base spec of an OCI runtime ---


def based(node: Node, spec: object) -> None:
    """Start the engine with a base spec for runc, and for no other runtime."""
    file = node.folder / "base.json"
    file.write_text(spec if isinstance(spec, str) else json.dumps(spec))
    runc = replace(node.config.runtimes["runc"], base_runtime_spec=str(file))
    containers = ContainerConfig(default_ulimits=("core=0",))
    node.start(replace(node.config, runtimes={**node.config.runtimes, "runc": runc}, containers=containers))


def test_a_base_spec_applies_to_containers_of_its_runtime(node: Node) -> None:
    rlimits = [{"type": "RLIMIT_NOFILE", "soft": 500, "hard": 600}, {"type": "RLIMIT_CORE", "soft": 7, "hard": 7}]
    dev = {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=1m"]}
    scratch = {"destination": "/scratch", "type": "tmpfs", "source": "tmpfs", "options": ["size=2m"]}
    process = {"env": ["FROM=base"], "rlimits": rlimits, "capabilities": {"bounding": ["CAP_CHOWN"]}}
    based(node, {"process": process, "mounts": [dev, scratch], "annotations": {"example.com/base": "1"}})
    text = f"echo $FROM; {LIMITS}; {CAPABILITIES}; df -k /dev /scratch | tail -n 2 | tr -s ' ' | cut -d' ' -f2"
    expected = ["base", "0", "0", "500", "600", f"{CHOWN:016x}", "1024", "2048"]
    assert run(node, text).split() == expected, "a key of the engine comes before the file"
    assert inside(node, node.run(node.pod("other", handler="crun"), "other"), "echo $FROM") == ""


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("[]", "base.json: expected an object"),
        ("{", r"base.json: cannot be read: .*runtimes\.runc\.base_runtime_spec"),
        ({"mounts": [{"destination": "x"}]}, r'base.json: mounts\[0\].destination: "x" is not an absolute path'),
        ({"process": {"env": "A=b"}}, "base.json: process.env: expected a list"),
        ({"process": [1]}, "base.json: process: expected an object"),
    ],
)
def test_an_invalid_base_spec_is_an_error_at_start_that_names_the_file(node: Node, spec: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        based(node, spec)


# --- hooks ---


STAGES = ("createRuntime", "poststart", "poststop")


def hook(node: Node, folder: str, name: str, stages: tuple[str, ...] = STAGES, **conditions: object) -> None:
    """A hook of several stages, whose program writes its argument, the stage and the container's name to a file."""
    program = node.folder / "hook"
    if not program.exists():
        program.write_text(f'#!/bin/sh\necho "$1 $(cat)" >> {node.folder}/ran\n')
        program.chmod(0o755)
    document = {"version": "1.0.0", "hook": {"path": str(program), "args": ["hook", f"{folder}-{name}"]}}
    (node.folder / folder).mkdir(exist_ok=True)
    text = json.dumps({**document, "when": conditions, "stages": stages})
    (node.folder / folder / f"{name}.json").write_text(text)


def ran(node: Node) -> list[tuple[str, str]]:
    """The argument and the container's status of each call of a hook so far."""
    file = node.folder / "ran"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(line.partition(" ")[0], json.loads(line.partition(" ")[2])["status"]) for line in lines]


@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_hooks_run_for_matching_containers(node: Node, handler: str) -> None:
    hook(node, "packages", "a", always=True)
    hook(node, "packages", "b", always=True)
    hook(node, "admin", "b", commands=["sleep$"])
    hook(node, "admin", "c", annotations={"^gpu$": "^yes$"})
    hook(node, "admin", "d", hasBindMounts=True)
    settings(node, f'hooks_dir = ["{node.folder}/packages", "{node.folder}/admin", "{node.folder}/none"]')
    pod_config = node.pod_config()
    pod_config.annotations["gpu"] = "yes"
    pod = node.engine.pod_creation.run(pod_config, handler)
    node.run(pod)
    expected = ["packages-a", "admin-b", "admin-c"]
    assert [name for name, _ in ran(node)] == expected * 2, "created and started"
    node.remove(pod)
    assert [name for name, _ in ran(node)] == expected * 3
    assert {status for _, status in ran(node)[6:]} == {"stopped"}


def test_hooks_of_the_old_name_of_a_stage_run_in_the_order_of_their_files(node: Node) -> None:
    hook(node, "admin", "a", ("createRuntime",), always=True)
    hook(node, "admin", "b", ("prestart",), always=True)
    settings(node, f'hooks_dir = ["{node.folder}/admin"]')
    node.run(node.pod())
    assert [name for name, _ in ran(node)] == ["admin-a", "admin-b"]


def test_a_changed_hook_applies_to_the_next_container_and_an_invalid_hook_is_ignored(node: Node) -> None:
    settings(node, f'hooks_dir = ["{node.folder}/admin"]')
    pod = node.pod()
    node.run(pod, "before")
    hook(node, "admin", "a", always=True)
    node.run(pod, "after")
    assert [name for name, _ in ran(node)] == ["admin-a"] * 2
    (node.folder / "admin/a.json").write_text("{")
    node.run(pod, "broken")
    assert [name for name, _ in ran(node)] == ["admin-a"] * 4


def test_an_invalid_hook_is_an_error_at_start_that_names_file_and_key(node: Node) -> None:
    hook(node, "admin", "a", sometimes=True)
    file = node.folder / "admin/a.json"
    file.write_text(file.read_text().replace('"poststop"', '"later"'))
    with pytest.raises(ConfigError, match=rf"{file}:1: stages\[2\]: "):
        settings(node, f'hooks_dir = ["{node.folder}/admin"]')


def test_hooks_of_a_base_spec_run_first(node: Node) -> None:
    hook(node, "admin", "a", always=True)
    program = {"path": str(node.folder / "hook"), "args": ["hook", "base"]}
    file = node.folder / "base.json"
    file.write_text(json.dumps({"hooks": {"createRuntime": [program]}}))
    runc = replace(node.config.runtimes["runc"], base_runtime_spec=str(file))
    containers = ContainerConfig(hooks_dir=(str(node.folder / "admin"),))
    node.start(replace(node.config, runtimes={**node.config.runtimes, "runc": runc}, containers=containers))
    node.create(node.pod())
    assert [name for name, _ in ran(node)][:2] == ["base", "admin-a"]


# --- logs ---


def test_a_log_that_exceeds_its_limit_is_emptied_and_continues(node: Node) -> None:
    settings(node, "log_size_max = 20000")
    text = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo last; sleep 1000"
    node.run(node.pod(), command=("sh", "-c", text))
    log = node.folder / "logs/pod/c.log"
    node.wait_for(lambda: log.read_text().endswith(" last\n"), "the last line")
    assert log.stat().st_size <= 20_000
    assert "line 1999" in log.read_text() and "line 0\n" not in log.read_text()


def test_a_long_line_is_split_into_marked_parts(node: Node) -> None:
    node.run(node.pod(), command=("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 1000"))
    log = node.folder / "logs/pod/c.log"
    node.wait_for(lambda: " F " in log.read_text(), "the end of the line")
    parts = [line.split(" ", 3) for line in log.read_text().splitlines()]
    assert "".join(part[3] for part in parts) == "x" * 20_000
    assert max(len(part[3]) for part in parts) <= 8192
    assert [part[2] for part in parts] == ["P"] * (len(parts) - 1) + ["F"]
