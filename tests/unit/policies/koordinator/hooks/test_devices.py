"""GPUs, RDMA devices and resctrl groups: what the scheduler's and the user's annotations make of a container."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator import names
from nri.policies.koordinator.contexts import ContainerContext, PodContext
from nri.policies.koordinator.hooks import gpu, rdma, resctrl
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.values import HookError, Mount, Resctrl


def container(allocated: object, hami: bool = False) -> ContainerContext:
    labels = {names.LABEL_GPU_ISOLATION: "HAMi-core"} if hami else {}
    text = allocated if isinstance(allocated, str) else json.dumps(allocated)
    return ContainerContext(PodContext(uid="u", labels=labels, annotations={names.ANNOTATION_DEVICES: text}), name="c")


def share(**parts: str) -> dict[str, object]:
    resources = {f"koordinator.sh/gpu-{part.replace('_', '-')}": value for part, value in parts.items()}
    return {"gpu": [{"minor": 1, "resources": resources}, {"minor": 3}]}


def test_a_container_sees_the_gpus_that_it_was_given() -> None:
    assert gpu.container(container(share())).changes.env == {"NVIDIA_VISIBLE_DEVICES": "1,3"}
    assert not gpu.container(container({"rdma": []})).changes
    assert not gpu.container(ContainerContext()).changes


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
    ("allocated", "says"),
    [
        ("not-json", "device-allocated"),
        (share(), "memory-ratio"),
        (share(memory_ratio="50"), "gpu-memory"),
        ({"gpu": [{"minor": "1"}]}, "whole number"),
    ],
)
def test_a_gpu_annotation_that_lacks_something_is_an_error(allocated: object, says: str) -> None:
    with pytest.raises(HookError, match=says):
        gpu.container(container(allocated, hami=True))


class Machine:
    """Verbs by PCI function, and numbers by node."""

    def __init__(self, verbs: dict[str, list[str]]) -> None:
        self._verbs = verbs

    def verbs(self, pci_address: str) -> Sequence[str]:
        if pci_address not in self._verbs:
            raise FileNotFoundError(f"no {pci_address}")
        return self._verbs[pci_address]

    def numbers(self, path: str) -> tuple[int, int]:
        if path.endswith("uverbs9"):
            raise FileNotFoundError(f"no {path}")
        return 231, len(path)


MACHINE = Machine(
    {"pf": ["uverbs1", "uverbs0"], "vf1": ["uverbs2"], "vf2": ["uverbs3"], "empty": [], "lost": ["uverbs9"]}
)


def test_virtual_functions_go_before_the_physical_one() -> None:
    allocated = {"rdma": [{"id": "pf", "extension": {"vfs": [{"busID": "vf2"}, {"busID": "vf1"}]}}, {"id": "pf"}]}
    paths = [device.path for device in rdma.container(container(allocated), MACHINE).changes.devices]
    assert paths == [f"/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs3", "uverbs2", "uverbs0")]
    assert not rdma.container(container({"rdma": []}), MACHINE).changes


@pytest.mark.parametrize(
    ("address", "says"), [("absent", "absent"), ("empty", "empty has no verbs"), ("lost", "uverbs9")]
)
def test_a_missing_rdma_device_is_an_error_that_names_it(address: str, says: str) -> None:
    """`empty_verbs_folder_told`: the original panics for a function without verbs."""
    with pytest.raises(HookError, match=says) as caught:
        rdma.container(container({"rdma": [{"id": address}]}), MACHINE)
    assert [device.path for device in caught.value.partial.devices] == ["/dev/infiniband/rdma_cm"]


CACHE = resctrl.Cache((0, 1), 0xFFF, resctrl.INTEL)


def pod(text: str) -> PodContext:
    return PodContext(uid="u", annotations={names.ANNOTATION_RESCTRL: text})


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 31))
def test_masks_are_whole_and_inside_the_cache(start: int, end: int, ways: int) -> None:
    cache = resctrl.Cache((0,), (1 << ways) - 1, resctrl.INTEL)
    text = json.dumps({"llc": {"schemata": {"range": [start, end]}}})
    group = resctrl.pod(pod(text), cache).changes.resctrl
    assert group is not None
    if group.schemata:
        mask = int(group.schemata.removeprefix("L3:0=").rstrip(";\n"), 16)
        low = mask & -mask
        assert mask // low + 1 == 1 << (mask // low).bit_length()
        assert mask <= cache.mask
    else:
        assert end <= start or -(-ways * start // 100) == -(-ways * end // 100)


@given(st.integers(1, 100))
def test_intel_bandwidths_are_rounded_up_to_tens_and_amds_are_of_160(percent: int) -> None:
    assert resctrl.bandwidth(percent, resctrl.INTEL) == -(-percent // 10) * 10
    assert resctrl.bandwidth(percent, resctrl.AMD) == (2048 if percent == 100 else percent * 160 // 100)
    assert resctrl.bandwidth(percent, "other") == 0


def test_a_container_has_the_class_of_a_group_that_there_is() -> None:
    """`resctrl_class_needs_group`."""
    assert resctrl.container(ContainerContext(pod("{}"))).changes.resctrl == Resctrl("koordlet-u")
    bad = ContainerContext(pod("not-json"))
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.container(bad)
    assert resctrl.container(bad, Quirks.REFERENCE).changes.resctrl == Resctrl("koordlet-u")
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.pod(bad.pod, CACHE)


def test_groups_of_gone_pods_are_stale_and_others_are_not_ours() -> None:
    groups = ["koordlet-u", "koordlet-gone", "BE", "mon_groups"]
    assert resctrl.stale(groups, [pod("{}")]) == ["koordlet-gone"]
    assert resctrl.stale(groups, [PodContext(uid="u")]) == ["koordlet-gone", "koordlet-u"]


def test_new_tasks_are_those_that_the_group_lacks() -> None:
    context = PodContext(tasks={"a": (1, 2), "b": (3,)})
    assert resctrl.new_tasks(context, [2]) == (1, 3)
    assert resctrl.new_tasks(context, None) == (1, 2, 3)
