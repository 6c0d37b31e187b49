"""The hook GPUEnvInject: the visible GPUs of a container, and HAMi-core's limits and library for a share of a GPU.

The values come from the scheduler's annotation. HAMi's monitor shares a folder with the container. The folder must
exist before it is mounted; `monitor_folder` returns its path.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from nri.agent.hooks import CREATE, Hook
from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import ANNOTATION_DEVICES
from nri.agent.model import Changes, Container, Decision, HookError, Mount
from nri.agent.ownership import Level, OwnedKnob
from nri.kube.quantity import ceil

NAME: Final = "GPUEnvInject"
_HAMI: Final = "HAMi-core"
_CORE, _MEMORY, _RATIO = (f"koordinator.sh/gpu-{part}" for part in ("core", "memory", "memory-ratio"))
#: The folder of the locks of HAMi's library.
LOCKS: Final = "/tmp/vgpulock"  # noqa: S108  a path that HAMi defines
LABEL_GPU_ISOLATION: Final = "koordinator.sh/gpu-isolation-provider"


def container(context: Container, *, library: str = "/usr/local/vgpu/libvgpu.so", monitor: bool = False) -> Decision:
    """Decide a container's environment and mounts. Raises HookError if the annotation is unreadable or incomplete.

    Args:
        context: the container.
        library: the path of HAMi-core's library on the host.
        monitor: whether HAMi's monitor reads the container's usage.
    """
    try:
        devices = pod_annotations.device_allocations(context.pod.annotations, "gpu")
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if not devices:
        return Decision()
    gpus = Changes(env={"NVIDIA_VISIBLE_DEVICES": ",".join(str(device.get("minor", 0)) for device in devices)})
    if context.pod.labels.get(LABEL_GPU_ISOLATION) != _HAMI:
        return Decision(gpus, "GPUs that the scheduler assigned")
    share = devices[0].get("resources", {})
    if _amount(share, _RATIO, gpus) >= 100:
        return Decision(gpus, "whole GPUs that the scheduler assigned")
    limits = {"CUDA_DEVICE_MEMORY_LIMIT": str(_amount(share, _MEMORY, gpus)), "LD_PRELOAD": library}
    if _CORE in share:
        limits["CUDA_DEVICE_SM_LIMIT"] = str(ceil(share[_CORE]))
    mounts = [_bind(library, library), _bind(LOCKS, LOCKS)]
    if monitor:
        folder = posixpath.dirname(library)
        name = f"{context.pod.uid}_{context.name}"
        limits["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{folder}/{name}.cache"
        mounts.append(_bind(folder, monitor_folder(context, library)))
    return Decision(gpus | Changes(env=limits, mounts=tuple(mounts)), "a share of a GPU, enforced by HAMi-core")


def monitor_folder(context: Container, library: str) -> str:
    """Return the host's folder for the usage of one container, which must be created empty before the container."""
    return f"{posixpath.dirname(library)}/containers/{context.pod.uid}_{context.name}"


def _amount(share: Mapping[str, Fraction], name: str, partial: Changes) -> int:
    if name not in share:
        raise HookError(NAME, f"the GPU's allocation has no {name}", partial)
    return ceil(share[name])


def _bind(destination: str, source: str) -> Mount:
    return Mount(destination, "bind", source, ("rbind",))


HOOK: Final = Hook(
    NAME,
    False,
    (),
    (ANNOTATION_DEVICES, LABEL_GPU_ISOLATION),
    {CREATE: lambda context, node: container(context, library=node.gpu_library, monitor=node.gpu_monitor)},
    (OwnedKnob(Level.CONTAINER, "env"), OwnedKnob(Level.CONTAINER, "mounts")),
)
