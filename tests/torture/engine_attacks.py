"""Attacks on the engine: images that lie, containers that leave what is hard to remove, calls that cannot be.

A function and a row each. What must never be is asserted where it would be seen: on the node. Next: the table in
tests/torture/RESULTS.md.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from nri.cri.pb import api_pb2 as pb
from tests.support.oci_layouts import base_layer, digest, layer, layout
from tests.support.waiting import wait_for
from tests.torture.engine_course import EngineAttack, Target
from tools.runtimes.images import BUSYBOX

#: Statuses of the engine's refusals of impossible requests.
REFUSALS = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION")
FOREVER = ("sleep", "1000000")
DEEP = 1500


def pod_config(name: str, **fields: Any) -> pb.PodSandboxConfig:
    """A pod on the node's network unless another one is asked for."""
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, namespace="hostile", uid="u"), log_directory="/tmp/nri-torture"
    )
    options = config.linux.security_context.namespace_options
    options.network, options.pid = pb.NODE, pb.CONTAINER  # type: ignore[assignment]
    config.MergeFrom(pb.PodSandboxConfig(**fields))
    return config


def container_config(image: str = BUSYBOX, command: Iterable[str] = FOREVER, **fields: Any) -> pb.ContainerConfig:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image=image), command=[*command]
    )
    config.MergeFrom(pb.ContainerConfig(**fields))
    return config


class HostilePod:
    """A pod of the attacker, gone with the block."""

    def __init__(self, target: Target, name: str = "hostile") -> None:
        self._target = target
        self.id = str(target.call("RunPodSandbox", config=pod_config(name)).pod_sandbox_id)

    def create(self, config: pb.ContainerConfig) -> str:
        return str(self._target.call("CreateContainer", pod_sandbox_id=self.id, config=config).container_id)

    def run(self, config: pb.ContainerConfig) -> str:
        created = self.create(config)
        self._target.call("StartContainer", container_id=created)
        return created

    def remove(self, container: str) -> None:
        self._target.call("RemoveContainer", container_id=container)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.call("RemovePodSandbox", pod_sandbox_id=self.id)


def security(**fields: Any) -> pb.LinuxContainerConfig:
    return pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext(**fields))


# --- images ---

PASSWD = b"1000:x:0:0::/:\nroot:x:0:0::/:\nsuper:x:\xc2\xb2:0::/:\nbig:x:4294967296:0::/:\n"
GROUP = b"2000:x:0:\nroot:x:0:\n"


def pulled(target: Target, name: str, layers: list[bytes], **more: Any) -> str:
    """An image of these layers, pulled; its name."""
    full = target.registry.push(name, layout(target.folder / name.replace(":", "-"), layers, **more))
    target.pull(full)
    return full


def users(target: Target) -> int:
    """Numbers that an image's passwd and group call root: the process on the node must have the numbers."""
    number = pb.Int64Value
    finished = 0
    layers = [base_layer(passwd=PASSWD, group=GROUP)]
    with HostilePod(target) as pod:
        for user, context in (
            ("", {"run_as_user": number(value=1000), "run_as_group": number(value=2000)}),
            ("1000:2000", {}),
            ("0", {"run_as_username": "1000", "run_as_group": number(value=2000)}),
        ):
            name = pulled(target, f"users:{finished}", layers, config={"User": user})
            process = pod.run(container_config(name, linux=security(**context)))
            info = json.loads(target.call("ContainerStatus", container_id=process, verbose=True).info["info"])
            ids = ids_of(info["pid"])
            assert ids == {"Uid": {"1000"}, "Gid": {"2000"}}, f"USER {user!r} {context} runs as {ids}"
            pod.remove(process)
            target.forget(name)
            finished += 1
        for user in ("²", "4294967295", "9" * 5000, "super", "big", "0:²", "nobody", "1000:wheel"):
            name = pulled(target, f"users:{finished}", layers, config={"User": user})
            code, text = target.refused("CreateContainer", pod_sandbox_id=pod.id, config=container_config(name))
            assert code == "INVALID_ARGUMENT", f"USER {user[:20]!r}: {code} {text[:200]}"
            target.forget(name)
            finished += 1
    return finished


def ids_of(pid: int) -> dict[str, set[str]]:
    """All user and group ids that a process on the node has."""
    rows = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return {key: set(rows[key].split()) for key in ("Uid", "Gid")}


def takes_id(target: Target) -> int:
    """Manifests with a trusted configuration and other layers, before and after the trusted image is there."""
    base, guard = layer({"etc": None, "etc/base": b"1"}), layer({"etc": None, "etc/guard": b"2"})
    both = [digest(base), digest(guard)]
    lies = [[base], [], [guard, base], [base, guard, guard], [guard], [base, base]]
    names = [
        target.registry.push(f"evil:{n}", layout(target.folder / f"e{n}", layers, diff_ids=both))
        for n, layers in enumerate(lies)
    ]
    for name in names:
        code, text = target.refused("PullImage", image=pb.ImageSpec(image=name))
        assert code != "OK", f"{name} was taken: {text}"
    trusted = target.registry.push("trusted:1", layout(target.folder / "good", [base_layer(), base, guard]))
    target.pull(trusted)
    with HostilePod(target) as pod:
        process = pod.run(container_config(trusted))
        finished = target.call("ExecSync", container_id=process, cmd=["cat", "/etc/base", "/etc/guard"], timeout=30)
        assert finished.stdout == b"12", finished
    target.forget(trusted)
    return len(lies)


def documents(target: Target) -> int:
    """Manifests and configurations that are none, that mean two things, or that are too deep or too long."""
    index = "application/vnd.oci.image.index.v1+json"
    good = target.registry.push("good:1", layout(target.folder / "good", [layer({"a": b"1"})]))
    manifest = json.loads(target.registry.tags["good:1"][1])
    loop: dict[str, Any] = {"schemaVersion": 2, "mediaType": index, "manifests": [
        {"mediaType": index, "digest": "sha256:" + "0" * 64, "size": 1}]}  # fmt: skip
    texts: list[tuple[bytes, str]] = [
        (b"", index), (b"{", index), (b"[" * 200_000, index), (b'{"a":' * 200_000, index), (b"7", index),
        (b'{"manifests": 7}', index), (json.dumps(loop).encode(), index),
        (json.dumps({**manifest, "manifests": loop["manifests"]}).encode(), index),
    ]  # fmt: skip
    kind = str(manifest["mediaType"])
    for changed in ({"config": 7}, {"config": {}}, {"layers": 7}, {"layers": [7]}, {"layers": [{"digest": 7}]},
                    {"layers": [{**manifest["layers"][0], "size": -1}]}, {"Config": manifest["config"]},
                    {"config": {**manifest["config"], "digest": "sha256:../../etc/passwd"}}):  # fmt: skip
        texts += [(json.dumps({**manifest, **changed}).encode(), kind)]
    for number, (text, media) in enumerate(texts):
        name = target.registry.put(f"odd:{number}", text, media)
        code, messages = target.refused("PullImage", image=pb.ImageSpec(image=name))
        assert code != "OK", f"{text[:80]!r} was pulled"
        assert len(messages) < 5000, f"{len(messages)} characters for {text[:80]!r}"
    for number, config in enumerate(({"User": 7}, {"Env": 7}, {"Cmd": ["a", 7]}, {"Labels": []}, {"Entrypoint": {}})):
        name = target.registry.push("c:1", layout(target.folder / f"c{number}", [layer({"a": b"1"})], config=config))
        assert target.refused("PullImage", image=pb.ImageSpec(image=name))[0] != "OK", f"{config} was pulled"
    assert target.pull(good)
    assert target.call("ListImages").images
    target.forget(good)
    return len(texts) + 5


def deep_layers(target: Target) -> int:
    """An image with folders so deep that no path reaches the last one."""
    folder = "/".join(["d"] * 1200)  # in one entry: umoci takes minutes for each on the way
    name = target.registry.push("deep:1", layout(target.folder / "deep", [base_layer(), layer({folder: None})]))
    code, text = target.refused("PullImage", image=pb.ImageSpec(image=name))
    assert code != "DEADLINE_EXCEEDED", text
    if code == "OK":
        with HostilePod(target) as pod:
            pod.remove(pod.run(container_config(name)))
        target.call("ImageFsInfo")
        target.forget(name)
    return 1


# --- containers ---


def deep_trees(target: Target) -> int:
    """Containers that make folders in folders, one and a half thousand deep, and are removed."""
    created = f"i=0; while [ $i -lt {DEEP} ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; exec sleep 1000000"
    with HostilePod(target) as pod:
        for _ in range(3):
            container = pod.run(container_config(command=("sh", "-c", created)))
            info = json.loads(target.call("ContainerStatus", container_id=container, verbose=True).info["info"])
            wait_until_deep(info["pid"])
            target.call("ListContainerStats")
            target.call("ImageFsInfo")
            target.call("StopContainer", container_id=container, timeout=0)
            pod.remove(container)
    return 3


def wait_until_deep(pid: int) -> None:
    """The program sleeps when its folders are made."""
    wait_for(
        lambda: b"sleep\0" in Path(f"/proc/{pid}/cmdline").read_bytes(),
        "the folders were not made",
        timeout_s=60,
    )


# --- calls ---

SYSCTLS = (
    "net/../vm/swappiness", "net/ipv4/../../vm/swappiness", "net.//.vm.swappiness", "net.ipv4.//.//.vm.swappiness",
    "fs.mqueue.//.//.vm.swappiness", "kernel.shm/../../vm/swappiness", "vm.swappiness", "kernel.hostname/../../vm/x",
)  # fmt: skip


def sysctls(target: Target) -> int:
    """Sysctls of a pod that would be the node's, in all spellings."""
    file = Path("/proc/sys/vm/swappiness")
    before = file.read_text()
    for name in SYSCTLS:
        config = pod_config("sysctl")
        config.linux.security_context.namespace_options.network = pb.POD  # type: ignore[assignment]
        config.linux.sysctls[name] = "1" if before.strip() != "1" else "2"
        code, text = target.refused("RunPodSandbox", config=config)
        assert code == "INVALID_ARGUMENT", f"{name}: {code} {text}"
        assert file.read_text() == before, f"{name} has set the node's"
    return len(SYSCTLS)


#: Field of a pod -> values that are all refused.
ODD_PODS: Mapping[str, list[Any]] = {
    "hostname": ["h" * 300, "a\nb", "a\0b", "a b", "h" * 1_000_000],
    "log_directory": ["relative", "/" + "a" * 300, "/a\0b", "/a" * 3000],
    "metadata": [
        pb.PodSandboxMetadata(name="a;IP=1.2.3.4"), pb.PodSandboxMetadata(namespace="a\nb"),
        pb.PodSandboxMetadata(uid="u" * 1_000_000),
    ],
    "dns_config": [pb.DNSConfig(servers=["1.1.1.1\nsearch evil"]), pb.DNSConfig(options=["a b"])],
    "port_mappings": [[pb.PortMapping(host_port=-1)], [pb.PortMapping(container_port=1 << 30)],
                      [pb.PortMapping(protocol=99)], [pb.PortMapping(host_ip="no address")]],  # type: ignore[arg-type]
    "annotations": [{"a": "x" * (5 << 20)}, {"a": "\0"}],
    "linux": [pb.LinuxPodSandboxConfig(cgroup_parent=parent) for parent in ("/../x", "/a\nb", "/a\0", "/" + "a" * 300)],
}  # fmt: skip
_R = pb.LinuxContainerResources
_MOST, _LEAST = 2**63 - 1, -(2**63)
#: Field of a container -> values that are all refused.
ODD_CONTAINERS: Mapping[str, list[Any]] = {
    "log_path": ["/etc/passwd", "../x", "a/../../x", "a" * 300, "a\0"],
    "working_dir": ["relative", "/a\0", "/" + "a" * 300],
    "command": [["a\0"], [""]],
    "stop_signal": [999],
    "image": [pb.ImageSpec(image="a\0b"), pb.ImageSpec(image="x" * 1_000_000), pb.ImageSpec(image="--help")],
    "mounts": [
        *([pb.Mount(container_path="/a", host_path=path)] for path in ("relative", "/a\0", "/mnt/" + "a" * 300)),
        [pb.Mount(container_path="/a", host_path="/", propagation=99)],  # type: ignore[arg-type]
        [pb.Mount(container_path="a", host_path="/")],
    ],
    "devices": [[pb.Device(host_path="/proc/1")], [pb.Device(host_path="/dev/null", permissions="q")]],
    "linux": [
        *(pb.LinuxContainerConfig(resources=_R(**{key: _LEAST})) for key in (
            "cpu_shares", "cpu_period", "cpu_quota", "memory_limit_in_bytes", "memory_swap_limit_in_bytes",
            "oom_score_adj",
        )),
        *(pb.LinuxContainerConfig(resources=_R(**{key: _MOST})) for key in ("cpu_period", "oom_score_adj")),
        *(pb.LinuxContainerConfig(resources=_R(cpuset_cpus=cpus)) for cpus in ("0-99999999999", "٣", "0," * 9999)),
        pb.LinuxContainerConfig(resources=_R(unified={"../../memory.max": "1"})),
        pb.LinuxContainerConfig(resources=_R(hugepage_limits=[pb.HugepageLimit(page_size="../x")])),
        *(security(**fields) for fields in (
            {"run_as_user": pb.Int64Value(value=-1)}, {"run_as_user": pb.Int64Value(value=1 << 32)},
            {"run_as_group": pb.Int64Value(value=0)}, {"run_as_username": "²"}, {"supplemental_groups": [-1]},
            {"supplemental_groups": range(70_000)}, {"supplemental_groups_policy": 99},
            {"namespace_options": pb.NamespaceOption(network=99)},  # type: ignore[arg-type]
            {"namespace_options": pb.NamespaceOption(pid=pb.TARGET, target_id="x" * 100_000)},
            {"seccomp": pb.SecurityProfile(profile_type=99)},  # type: ignore[arg-type]
            {"seccomp": pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/etc/passwd")},
            {"capabilities": pb.Capability(add_capabilities=["x" * 100_000])}, {"masked_paths": ["/a\0"]},
        )),
    ],
}  # fmt: skip


def odd_calls(target: Target) -> int:
    """Requests with absurd numbers, names, paths, texts and enumerations."""
    finished = 0
    for field, values in ODD_PODS.items():
        for value in values:
            answer = target.refused("RunPodSandbox", config=pod_config("odd", **{field: value}))
            finished += _refused(answer, f"{field} {str(value)[:60]!r}")
    with HostilePod(target) as pod:
        for field, values in ODD_CONTAINERS.items():
            for value in values:
                config = container_config()
                if field in ("command", "image"):
                    config.ClearField(field)
                config.MergeFrom(pb.ContainerConfig(**{field: value}))
                answer = target.refused("CreateContainer", pod_sandbox_id=pod.id, config=config)
                finished += _refused(answer, f"{field} {str(value)[:60]!r}")
        process = pod.run(container_config())
        for timeout in (_MOST, _LEAST):
            target.refused("ExecSync", container_id=process, cmd=["echo"], timeout=timeout)
        for resources in (_R(cpu_period=_MOST), _R(cpu_quota=_LEAST), _R(unified={"../x": "1"}), _R(cpuset_cpus="٣")):
            finished += _refused(
                target.refused("UpdateContainerResources", container_id=process, linux=resources), "update"
            )
        target.call("StopContainer", container_id=process, timeout=0)
    for name in ("ContainerStatus", "ContainerStats", "ReopenContainerLog"):
        finished += _refused(target.refused(name, container_id="x" * 1_000_000), name)
    for image in ("../../x", "a\0b", "x" * 1_000_000, "-h"):
        finished += _refused(target.refused("PullImage", image=pb.ImageSpec(image=image)), "pull")
    return finished


def _refused(answer: tuple[str, str], what: str) -> int:
    code, text = answer
    assert code in REFUSALS, f"{what}: {code} {text[:200]}"
    assert len(text) < 8000, f"{what}: a text of {len(text)} characters"
    return 1


def cri_bytes(target: Target) -> int:
    """Connections to the CRI's socket that say nothing, half of something, or garbage; and calls that are given up."""
    path = str(target.cri_socket)
    dice, opened = random.Random(1), list[socket.socket]()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for number in range(200):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        begun = (b"", preface[:9], preface, dice.randbytes(4096), preface + dice.randbytes(4096))[number % 5]
        with suppress(OSError):  # it was closed already
            connection.sendall(begun)
        opened.append(connection)
    threads = [threading.Thread(target=target.refused, args=("ListContainerStats",)) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in opened:
        connection.close()
    return len(opened)


ROWS = (
    EngineAttack("passwd-numbers", "images whose passwd and group call the numbers 1000 and 2000 root, or hold none",
                 "a number stays that number on the node; other values are refused by image and value", users),
    EngineAttack("image-takes-id", "manifests with a trusted image's configuration and other layers",
                 "refused by name; the trusted image is pulled whole", takes_id),
    EngineAttack("image-documents", "manifests, lists and configurations that are none, mean two things, or never end",
                 "that pull fails by name", documents),
    EngineAttack("deep-layers", "an image with folders 1,200 deep", "pulled and removed, or refused",
                 deep_layers),
    EngineAttack("deep-trees", "containers that make folders 1,500 deep", "counted and removed",
                 deep_trees),
    EngineAttack("sysctls", "pods with `net/../vm/swappiness` and the like",
                 "refused by name; the node's stay", sysctls),
    EngineAttack("odd-calls", "pods, containers and calls with absurd numbers, names, paths, texts and enumerations",
                 "refused by field, with a short text", odd_calls),
    EngineAttack("cri-bytes", "200 connections to the CRI's socket with nothing, half of something, or garbage",
                 "closed with their clients", cri_bytes),
)  # fmt: skip
ATTACKS: Mapping[str, EngineAttack] = {row.name: row for row in ROWS}
