"""Settings of one OCI runtime, and the effect of pod annotations, in real containers."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.inventory import read_spec
from nri.errors import ConfigError, NriError
from tests.engine.node import V2, Node
from tests.engine.test_user_namespaces import inside

CAPABILITIES = "grep CapEff /proc/self/status | cut -f2"
DEVICES, UMASK = "io.kubernetes.cri-o.Devices", "io.kubernetes.cri-o.umask"


def start(node: Node, *, containers: dict[str, Any] | None = None, **keys: Any) -> None:
    """Start the engine with these keys for runc, and for no other runtime."""
    runc = replace(node.config.runtimes["runc"], **keys)
    node.start(
        replace(
            node.config,
            runtimes={**node.config.runtimes, "runc": runc},
            containers=replace(node.config.containers, **(containers or {})),
        )
    )


def pod(node: Node, name: str = "pod", annotations: dict[str, str] | None = None, **security: Any) -> str:
    config = node.pod_config(name)
    config.annotations.update(annotations or {})
    config.linux.security_context.MergeFrom(pb.LinuxSandboxSecurityContext(**security))
    return node.engine.pod_creation.run(config, "runc")


def spec(node: Node, container_id: str) -> dict[str, Any]:
    return read_spec(node.config.state / "bundles" / container_id)


# --- annotations that are passed on ---


def test_annotations_that_match_a_pattern_reach_the_oci_runtime(node: Node) -> None:
    start(node, pod_annotations=("example.com/*", "*"), container_annotations=("own",))
    annotations = {"example.com/a": "1", "other.com/a": "2", "run.oci.handler": "krun", "own": "pod"}
    annotations["io.kubernetes.cri.sandbox-name"] = "forged"
    container_id = node.run(pod(node, annotations=annotations), annotations={"own": "container", "x": "y"})
    actual = spec(node, container_id)["annotations"]
    assert (actual["example.com/a"], actual["own"]) == ("1", "container")
    assert not {"other.com/a", "run.oci.handler", "x"} & {*actual}
    assert actual["io.kubernetes.cri.sandbox-name"] == "pod", "a user cannot replace the engine's annotations"


def test_no_annotation_is_passed_on_by_default(node: Node) -> None:
    container_id = node.create(pod(node, annotations={"example.com/a": "1"}), annotations={"b": "2"})
    assert not {"example.com/a", "b"} & {*spec(node, container_id)["annotations"]}


# --- defaults of one runtime ---


def test_a_runtime_has_its_own_default_capabilities(node: Node) -> None:
    start(node, default_capabilities=("CHOWN",), containers={"default_capabilities": ("SETUID",)})
    assert int(inside(node, node.run(pod(node)), CAPABILITIES), 16) == 1
    other = node.pod("other", handler="crun")
    assert int(inside(node, node.run(other, "other"), CAPABILITIES), 16) == 1 << 7


def test_a_runtime_has_its_own_default_seccomp_profile(node: Node) -> None:
    file = node.folder / "profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    start(node, seccomp_profile=str(file))
    text = "mkdir /tmp/x 2>/dev/null; echo $?"
    default = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)
    security = {"security_context": {"seccomp": default}}
    pod_id = pod(node)
    assert inside(node, node.run(pod_id, "filtered", linux=security), "mkdir /x 2>/dev/null; echo $?") == "1"
    unconfined = pb.SecurityProfile(profile_type=pb.SecurityProfile.Unconfined)
    security = {"security_context": {"seccomp": unconfined}}
    assert inside(node, node.run(pod_id, "free", linux=security), text.replace("/tmp/x", "/x")) == "0"


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "cannot be read"), ("[]", "expected an object"), ("{}", "missing")]
)
def test_an_unusable_default_seccomp_profile_fails_the_start(node: Node, text: str, problem: str) -> None:
    file = node.folder / "profile.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"{file}: .*{problem}.*runtimes\.runc\.seccomp_profile"):
        start(node, seccomp_profile=str(file))


def test_a_writable_cgroup_requires_cgroup_v2(node: Node) -> None:
    if not V2:
        with pytest.raises(ConfigError, match=r"runtimes\.runc\.cgroup_writable: requires cgroup v2"):
            start(node, cgroup_writable=True)
        return
    start(node, cgroup_writable=True)
    assert inside(node, node.run(pod(node)), "mkdir /sys/fs/cgroup/x && rmdir /sys/fs/cgroup/x && echo yes") == "yes"


PRIVILEGED = {"security_context": {"privileged": True}}
KMSG = (
    "test -c /dev/kmsg && echo yes || echo no; mknod /tmp-kmsg c 1 11;"
    " head -c 0 /tmp-kmsg 2>/dev/null && echo used; true"
)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ["yes", "used"]),
        ({"privileged_without_host_devices": True}, ["no"]),
        (
            {
                "privileged_without_host_devices": True,
                "privileged_without_host_devices_all_devices_allowed": True,
            },
            ["no", "used"],
        ),
    ],
)
def test_a_privileged_container_has_the_node_devices_that_its_runtime_permits(
    node: Node, keys: dict[str, bool], expected: list[str]
) -> None:
    start(node, **keys)
    container_id = node.run(pod(node, privileged=True), linux=PRIVILEGED)
    assert inside(node, container_id, KMSG).split() == expected


# --- annotations on which the engine acts ---


def test_an_allowed_annotation_adds_an_allowed_device_and_sets_the_umask(node: Node) -> None:
    allowed = {"allowed_devices": ("/dev/null",)}
    start(node, allowed_annotations=(DEVICES, UMASK), containers=allowed)
    pod_id = pod(node, annotations={DEVICES: "/dev/null:/dev/sink:r", UMASK: "0027"})
    container_id = node.run(pod_id, command=("sh", "-c", "umask > /mask; sleep 1000"))
    node.wait_for(lambda: inside(node, container_id, "cat /mask"), "the umask")
    assert inside(node, container_id, "cat /mask; cat /dev/sink; echo $?").split() == ["0027", "0"]


def test_an_annotation_that_is_not_allowed_is_ignored(node: Node) -> None:
    start(node)
    container_id = node.create(pod(node, annotations={DEVICES: "/dev/null:/dev/sink", UMASK: "0"}))
    actual = spec(node, container_id)
    assert actual["linux"]["devices"] == [] and "umask" not in actual["process"]["user"]


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({DEVICES: "/dev/sda"}, "is not allowed; containers.allowed_devices has /dev/fuse"),
        ({DEVICES: "/dev/../dev/fuse"}, "is not allowed"),
        ({DEVICES: "fuse"}, "must be /dev/HOST"),
        ({DEVICES: "/dev/fuse," * 100}, "more than 64 devices"),
        ({UMASK: "999"}, "must be an octal number"),
    ],
)
def test_an_allowed_annotation_with_an_invalid_value_is_refused(
    node: Node, annotations: dict[str, str], problem: str
) -> None:
    start(node, allowed_annotations=(DEVICES, UMASK))
    pod_id = pod(node, annotations=annotations)
    with pytest.raises(NriError, match=rf"annotations\[.*: .*{problem}"):
        node.create(pod_id)


# --- owners of devices ---


@pytest.mark.parametrize(("key", "expected"), [(True, "1000:2000"), (False, "0:0")])
def test_devices_belong_to_the_container_user_if_the_key_is_set(node: Node, key: bool, expected: str) -> None:
    device = node.folder / "device"
    os.mknod(device, 0o20600, os.makedev(1, 3))
    start(node, containers={"device_ownership_from_security_context": key})
    user = {"security_context": {"run_as_user": {"value": 1000}, "run_as_group": {"value": 2000}}}
    devices = [pb.Device(host_path=str(device), container_path="/dev/own", permissions="rw")]
    container_id = node.run(pod(node), linux=user, devices=devices)
    assert inside(node, container_id, "stat -c %u:%g /dev/own") == expected
    opened = inside(node, container_id, "(echo > /dev/own) 2>/dev/null && echo opened || echo refused")
    assert opened == ("opened" if key else "refused")


# --- RDT and block-I/O classes ---

RDT, BLOCKIO = (f"{kind}.resources.beta.kubernetes.io" for kind in ("rdt", "blockio"))


def test_an_annotation_selects_a_block_io_class(node: Node) -> None:
    file = node.folder / "blockio.yaml"
    disk = next(path for path in sorted(Path("/dev").iterdir()) if path.is_block_device())
    file.write_text(f"Classes: {{slow: [{{Devices: [{disk}], ThrottleReadBps: 1M}}]}}")
    start(node, containers={"blockio_config": str(file)})
    annotations = {f"{BLOCKIO}/pod": "unknown", f"{BLOCKIO}/container.c": "slow"}
    container_id = node.run(pod(node, annotations=annotations))
    number = disk.stat().st_rdev
    if not V2:
        text = node.cgroup(container_id, "blkio", "blkio.throttle.read_bps_device")
        assert text == f"{os.major(number)}:{os.minor(number)} {10**6}"
    with pytest.raises(NriError, match=r'annotations.*: "unknown": no block-I/O class "unknown"; known: slow'):
        node.create(node.engine.inventory.pods()[0].id, "other")


@pytest.mark.parametrize(("prefix", "key"), [(RDT, "rdt_config"), (BLOCKIO, "blockio_config")])
def test_an_annotation_for_a_class_is_refused_if_the_node_has_no_classes(node: Node, prefix: str, key: str) -> None:
    start(node)
    pod_id = pod(node, annotations={f"{prefix}/pod": "gold"})
    with pytest.raises(NriError, match=rf"annotations.*: \"gold\": no classes: set containers\.{key}"):
        node.create(pod_id)


@pytest.mark.parametrize("prefix", [RDT, BLOCKIO])
def test_without_classes_a_container_may_run_without_its_class(node: Node, prefix: str) -> None:
    start(node, containers={"ignore_rdt_not_enabled_errors": True, "ignore_blockio_not_enabled_errors": True})
    container_id = node.run(pod(node, annotations={f"{prefix}/pod": "gold"}))
    spec = read_spec(Path(node.engine.inventory.container(container_id).record.bundle))
    assert "intelRdt" not in spec["linux"] and "blockIO" not in spec["linux"]["resources"]


def test_an_rdt_class_on_a_node_without_rdt_is_refused(node: Node) -> None:
    if Path("/sys/fs/resctrl/schemata").exists():
        pytest.skip("this machine has RDT")
    file = node.folder / "rdt.yaml"
    file.write_text("classes: {gold: {}}")
    start(node, containers={"rdt_config": str(file)})
    pod_id = pod(node, annotations={f"{RDT}/pod": "gold"})
    with pytest.raises(NriError, match="this node has no RDT"):
        node.create(pod_id)
