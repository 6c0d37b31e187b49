"""Each field of a CRI request changes the spec, is noted, or belongs to another part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Account, Device, ImageConfig, Machine, Options, Pod, container_spec, pod_spec, stop_signal
from nri.engine.spec.user import requested_user
from nri.errors import RequestError

ROW = [pb.IDMapping(host_id=1, container_id=0, length=2)]
NUMBER = pb.Int64Value(value=7)
LOCALHOST = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/p")
USERS = pb.UserNamespace(mode=pb.POD, uids=ROW, gids=ROW)
MOUNT = {"container_path": "/d", "host_path": "/h"}
SECURITY = "linux.security_context"

#: A value of each field that the spec is made of; below it nothing has to be listed.
CONTAINER = {
    "metadata.name": "n", "image": pb.ImageSpec(image="i"), "command": ["c"], "args": ["a"], "working_dir": "/w",
    "envs": [pb.KeyValue(key="K", value=b"v")], "devices": [pb.Device(host_path="/dev/x")], "tty": True,
    "mounts.container_path": [pb.Mount(**MOUNT)], "mounts.host_path": [pb.Mount(**MOUNT)],
    "mounts.readonly": [pb.Mount(**MOUNT, readonly=True)],
    "mounts.propagation": [pb.Mount(**MOUNT, propagation=pb.PROPAGATION_BIDIRECTIONAL)],
    "mounts.uidMappings": [pb.Mount(**MOUNT, uidMappings=ROW, gidMappings=ROW)],
    "mounts.gidMappings": [pb.Mount(**MOUNT, uidMappings=ROW, gidMappings=ROW)],
    "mounts.recursive_read_only": [pb.Mount(**MOUNT, readonly=True, recursive_read_only=True)],
    "mounts.image": [pb.Mount(container_path="/d", image=pb.ImageSpec(image="i"))],
    "mounts.mount_options": [pb.Mount(**MOUNT, mount_options=["noexec"])],
    "mounts.selinux_relabel": [pb.Mount(**MOUNT, selinux_relabel=True)],
    "windows": pb.WindowsContainerConfig(), "stop_signal": pb.SIGNAL_SIGINT,
    "linux.resources.cpu_period": 9, "linux.resources.cpu_quota": 9, "linux.resources.cpu_shares": 9,
    "linux.resources.memory_limit_in_bytes": 9, "linux.resources.memory_swap_limit_in_bytes": 9,
    "linux.resources.oom_score_adj": 9, "linux.resources.cpuset_cpus": "0", "linux.resources.cpuset_mems": "0",
    "linux.resources.hugepage_limits": [pb.HugepageLimit(page_size="2MB")], "linux.resources.unified": {"a": "1"},
    f"{SECURITY}.capabilities.add_capabilities": ["BPF"], f"{SECURITY}.capabilities.drop_capabilities": ["KILL"],
    f"{SECURITY}.capabilities.add_ambient_capabilities": ["KILL"], f"{SECURITY}.privileged": True,
    f"{SECURITY}.namespace_options.network": pb.NODE, f"{SECURITY}.namespace_options.pid": pb.CONTAINER,
    f"{SECURITY}.namespace_options.ipc": pb.NODE,
    f"{SECURITY}.namespace_options.target_id": pb.NamespaceOption(pid=pb.TARGET, target_id="c2"),
    f"{SECURITY}.namespace_options.userns_options": USERS, f"{SECURITY}.selinux_options": pb.SELinuxOption(type="t"),
    f"{SECURITY}.run_as_user": NUMBER, f"{SECURITY}.run_as_group": NUMBER, f"{SECURITY}.run_as_username": "u",
    f"{SECURITY}.readonly_rootfs": True, f"{SECURITY}.supplemental_groups": [7],
    f"{SECURITY}.supplemental_groups_policy": pb.Strict, f"{SECURITY}.no_new_privs": True,
    f"{SECURITY}.masked_paths": ["/m"], f"{SECURITY}.readonly_paths": ["/r"], f"{SECURITY}.seccomp": LOCALHOST,
    f"{SECURITY}.apparmor": LOCALHOST, f"{SECURITY}.apparmor_profile": "localhost/x",
    f"{SECURITY}.seccomp_profile_path": "runtime/default",
}  # fmt: skip
#: What others see to, and who.
ELSEWHERE = {
    "metadata.attempt": "the engine's records", "labels": "the engine's records", "annotations": "the engine's records",
    "log_path": "conmon", "stdin": "conmon", "stdin_once": "conmon", "CDI_devices": "nri.oci",
    "mounts.image_sub_path": "who finds the folder: Options.image_folders",
}  # fmt: skip
POD = {
    "metadata.name": "n", "metadata.uid": "u", "metadata.namespace": "ns", "hostname": "h", "log_directory": "/l",
    "windows": pb.WindowsPodSandboxConfig(), "linux.cgroup_parent": "/p", "linux.sysctls": {"net.a": "1"},
    f"{SECURITY}.namespace_options.network": pb.NODE, f"{SECURITY}.namespace_options.pid": pb.NODE,
    f"{SECURITY}.namespace_options.ipc": pb.NODE, f"{SECURITY}.namespace_options.userns_options": USERS,
    f"{SECURITY}.selinux_options": pb.SELinuxOption(type="t"), f"{SECURITY}.run_as_user": NUMBER,
    f"{SECURITY}.run_as_group": NUMBER, f"{SECURITY}.supplemental_groups": [7], f"{SECURITY}.privileged": True,
    f"{SECURITY}.seccomp": pb.SecurityProfile(), f"{SECURITY}.seccomp_profile_path": "runtime/default",
}  # fmt: skip
POD_ELSEWHERE = {
    "metadata.attempt": "the engine's records", "labels": "the engine's records", "annotations": "the engine's records",
    "dns_config": "who writes the pod's files", "port_mappings": "CNI", "linux.overhead": "the pod's cgroup",
    "linux.resources": "the pod's cgroup", f"{SECURITY}.namespace_options.target_id": "containers only",
    f"{SECURITY}.readonly_rootfs": "it always is", f"{SECURITY}.supplemental_groups_policy": "no image's groups",
    f"{SECURITY}.apparmor": "a process that sleeps, without capabilities",
}  # fmt: skip


def fields(descriptor: Descriptor, listed: set[str], above: str = "") -> Iterator[str]:
    """Each field of a message and of those below it, down to those that are listed."""
    for field in descriptor.fields:
        path = above + field.name
        if path in listed or not any(one.startswith(f"{path}.") for one in listed):
            yield path
        else:
            yield from fields(field.message_type, listed, f"{path}.")


@pytest.mark.parametrize(
    ("message", "listed"),
    [(pb.ContainerConfig, {*CONTAINER, *ELSEWHERE}), (pb.PodSandboxConfig, {*POD, *POD_ELSEWHERE})],
)
def test_no_field_is_forgotten(message: type, listed: set[str]) -> None:
    assert set(fields(message.DESCRIPTOR, listed)) == listed


def with_field(config: object, path: str, value: object) -> None:
    """Set a field of a request; a list of messages replaces the whole list, a message the one above if it is that."""
    *above, last = path.split(".")
    target = config
    for name in above:
        if name == "mounts":
            last = name
            break
        target = getattr(target, name)
    if isinstance(value, pb.NamespaceOption):
        target.CopyFrom(value)
    elif isinstance(value, list):
        del getattr(target, last)[:]
        getattr(target, last).extend(value)
    elif isinstance(value, dict):
        getattr(target, last).update(value)
    elif isinstance(value, (int, str)):
        setattr(target, last, value)
    else:
        getattr(target, last).CopyFrom(value)
        getattr(target, last).SetInParent()


def outcome(config: pb.ContainerConfig) -> object:
    """All that comes of a request: spec, notes, user, signal, or the error."""
    pod = Pod("p1", pb.PodSandboxConfig(), {kind: f"/{kind}" for kind in ("network", "ipc", "uts", "pid", "user")})
    image = ImageConfig(cmd=("run",), user="www")
    options = Options(
        "c1", "/rootfs", Account(1, 2, (3,)), Machine(selinux=True, apparmor=True),
        devices={"/dev/x": [Device("/dev/x", "c", 1, 2)]}, image_folders={0: "/i"}, target_pid_namespace="/t",
        localhost_seccomp={"defaultAction": "SCMP_ACT_ALLOW"},
    )  # fmt: skip
    try:
        return container_spec(pod, config, image, options), requested_user(config, image), stop_signal(config, image)
    except RequestError as error:
        return str(error)


@pytest.mark.parametrize("path", CONTAINER)
def test_every_field_of_a_container_has_an_effect(path: str) -> None:
    plain, config = pb.ContainerConfig(), pb.ContainerConfig()
    with_field(config, path, CONTAINER[path])
    plain.linux.security_context.namespace_options.SetInParent()
    config.linux.security_context.namespace_options.SetInParent()
    assert outcome(config) != outcome(plain)


@pytest.mark.parametrize("path", POD)
def test_every_field_of_a_pod_has_an_effect(path: str) -> None:
    def spec_or_error(config: pb.PodSandboxConfig) -> object:
        context = config.linux.security_context
        if path.endswith("namespace_options.userns_options"):
            context.namespace_options.network = pb.POD
        try:
            return pod_spec("p1", config, ["/pause"], Options("p1", "/pause", machine=Machine(selinux=True)))
        except RequestError as error:
            return str(error)

    config = pb.PodSandboxConfig()
    with_field(config, path, POD[path])
    assert spec_or_error(config) != spec_or_error(pb.PodSandboxConfig())
