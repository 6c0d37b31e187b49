"""The benchmarks' payload: one pod and one container, as bytes that every implementation loads.

The sizes are those of a real, well filled container: pod 1,257 bytes, container 4,951 bytes, so that a
StartContainerRequest has 6,214. All implementations read the same files, so nobody measures another payload.
By hand: ``python bench/payload.py FOLDER`` writes pod.pb and container.pb, and the same as protobuf JSON.
"""

import sys
from pathlib import Path
from typing import TypeVar

from google.protobuf import json_format

from nri.api import messages as m

POD_BYTES = 1257
CONTAINER_BYTES = 4951
REQUEST_BYTES = 6214  # both in a StartContainerRequest: two fields of a tag and a two-byte length each
POD_ID = "f" * 64
CONTAINER_ID = "c" * 64
PADDING = "bench.example.com/padding"
M = TypeVar("M", m.PodSandbox, m.Container)


def make_pod() -> m.PodSandbox:
    """A pod with 10 labels and 10 annotations, exactly POD_BYTES long."""
    pod = m.PodSandbox(
        id=POD_ID,
        name="bench-pod-5d8f7c9b4d-x2x7k",
        uid="0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        namespace="bench-namespace",
        runtime_handler="runc",
        pid=4242,
        ips=["10.128.3.17"],
    )
    for i in range(10):
        pod.labels[f"app.example.com/label-{i:02}"] = f"value-{i:02}"
    for i in range(9):
        pod.annotations[f"notes.example.com/annotation-{i:02}"] = f"some value {i:02}"
    pod.linux.cgroup_parent = "/kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    for kind in ("ipc", "uts", "network"):
        pod.linux.namespaces.add(type=kind, path=f"/proc/4242/ns/{kind}")
    return _padded(pod, POD_BYTES)


def make_container() -> m.Container:
    """A container with 40 env, 20 mounts, 15 labels and annotations, 6 devices; exactly CONTAINER_BYTES long."""
    container = m.Container(
        id=CONTAINER_ID,
        pod_sandbox_id=POD_ID,
        name="bench",
        state=m.ContainerState.CONTAINER_CREATED,
        args=["/usr/bin/bench-server", "--listen=:8080", "--verbose"],
        created_at=1_700_000_000_000_000_000,
    )
    for i in range(15):
        container.labels[f"c.example.com/l-{i:02}"] = f"value-{i:02}"
    for i in range(14):
        container.annotations[f"c.example.com/a-{i:02}"] = f"value {i:02}"
    container.env.extend(f"BENCH_VARIABLE_{i:02}=value-of-the-variable-{i:02}" for i in range(40))
    for i in range(20):
        container.mounts.add(
            destination=f"/mnt/volume-{i:02}",
            type="bind",
            source=f"/var/lib/volumes/vol-{i:02}",
            options=["rbind", "rprivate", "ro"],
        )
    container.rlimits.add(type="RLIMIT_NOFILE", hard=1_048_576, soft=65_536)
    container.image.name = "registry.example.com/bench/server:v1.2.3"
    _fill_linux(container.linux)
    return _padded(container, CONTAINER_BYTES)


def _fill_linux(linux: m.LinuxContainer) -> None:
    for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup"):
        linux.namespaces.add(type=kind)
    for i in range(6):
        device = linux.devices.add(path=f"/dev/bench{i}", type="c", major=240, minor=i)
        device.file_mode.value = 0o666
    resources = linux.resources
    resources.memory.limit.value = 1 << 30
    resources.cpu.shares.value = 1024
    resources.cpu.quota.value = 200_000
    resources.cpu.period.value = 100_000
    resources.cpu.cpus = "0-1"
    resources.pids.limit = 4096
    linux.oom_score_adj.value = 500
    linux.cgroups_path = f"/kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/{CONTAINER_ID}"


def _padded(message: M, size_bytes: int) -> M:
    """`message` with one more annotation that brings it to the exact size."""
    message.annotations[PADDING] = ""
    for _ in range(3):  # lengths of one and of two bytes need a second look
        missing = size_bytes - message.ByteSize()
        have = len(message.annotations[PADDING])
        message.annotations[PADDING] = "p" * (have + missing)
    if message.ByteSize() != size_bytes:
        raise ValueError(f"{type(message).__name__} has {message.ByteSize()} bytes instead of {size_bytes}")
    return message


def write(folder: Path) -> tuple[Path, Path]:
    """Write pod.pb and container.pb (and .json files) into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, message in (("pod", make_pod()), ("container", make_container())):
        path = folder / f"{name}.pb"
        path.write_bytes(message.SerializeToString(deterministic=True))
        text = json_format.MessageToJson(message, preserving_proto_field_name=True, indent=1)
        path.with_suffix(".json").write_text(text + "\n")
        paths.append(path)
    return paths[0], paths[1]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: payload.py FOLDER")
    print(*write(Path(sys.argv[1])), sep="\n")
