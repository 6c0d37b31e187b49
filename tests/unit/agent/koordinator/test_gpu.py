"""The GPUs that a container sees, and the limits of a shared one."""

import json

import pytest

from nri.agent.koordinator import gpu, names
from nri.agent.model import Container, HookError, Mount, Pod


def container(allocated: object, hami: bool = False) -> Container:
    labels = {gpu.LABEL_GPU_ISOLATION: "HAMi-core"} if hami else {}
    text = allocated if isinstance(allocated, str) else json.dumps(allocated)
    return Container(Pod(uid="u", labels=labels, annotations={names.ANNOTATION_DEVICES: text}), name="c")


def share(**parts: str) -> dict[str, object]:
    resources = {f"koordinator.sh/gpu-{part.replace('_', '-')}": value for part, value in parts.items()}
    return {"gpu": [{"minor": 1, "resources": resources}, {"minor": 3}]}


def test_a_container_sees_its_assigned_gpus() -> None:
    assert gpu.container(container(share())).changes.env == {"NVIDIA_VISIBLE_DEVICES": "1,3"}
    assert not gpu.container(container({"rdma": []})).changes
    assert not gpu.container(Container()).changes


def test_a_share_of_a_gpu_is_limited_by_hami() -> None:
    given_ = container(share(core="50", memory="8Gi", memory_ratio="50"), hami=True)
    changes = gpu.container(given_, library="/usr/local/vgpu/libvgpu.so", monitor=True).changes
    assert changes.env == {
        "NVIDIA_VISIBLE_DEVICES": "1,3",
        "CUDA_DEVICE_MEMORY_LIMIT": str(8 << 30),
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": "/usr/local/vgpu/libvgpu.so",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/u_c.cache",
    }
    assert [mount.source for mount in changes.mounts] == [
        "/usr/local/vgpu/libvgpu.so",
        "/tmp/vgpulock",
        "/usr/local/vgpu/containers/u_c",
    ]
    assert changes.mounts[0] == Mount("/usr/local/vgpu/libvgpu.so", "bind", "/usr/local/vgpu/libvgpu.so", ("rbind",))
    without = gpu.container(given_).changes
    assert len(without.mounts) == 2
    assert "CUDA_DEVICE_MEMORY_SHARED_CACHE" not in without.env


def test_a_whole_gpu_has_no_limits() -> None:
    assert not gpu.container(container(share(memory_ratio="100"), hami=True)).changes.mounts


@pytest.mark.parametrize(
    ("allocated", "message"),
    [
        ("not-json", "device-allocated"),
        (share(), "memory-ratio"),
        (share(memory_ratio="50"), "gpu-memory"),
        ({"gpu": [{"minor": "1"}]}, "whole number"),
    ],
)
def test_an_incomplete_gpu_annotation_is_an_error(allocated: object, message: str) -> None:
    with pytest.raises(HookError, match=message):
        gpu.container(container(allocated, hami=True))
