"""Names of cgroup folders for both drivers: systemd's nested slices, and cgroupfs' plain folders. Pure text.

A container id is `runtime://hash`. Paths have no slash at their end, and one in front only where they were given it.
Next: `nri.policies.manifest`, which uses them for pods as Kubernetes lists them.
"""

from __future__ import annotations

import posixpath
from typing import Final

__all__ = [
    "BEST_EFFORT",
    "BURSTABLE",
    "CGROUPFS",
    "GUARANTEED",
    "KUBE_CLASSES",
    "MANY_PODS",
    "RUNTIMES",
    "SYSTEMD",
    "container_folder",
    "container_path",
    "joined",
    "kube_class_of",
    "kube_class_path",
    "of_many_pods",
    "pod_path",
]

# Kubernetes' QoS classes, in the order of the folders.
GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
KUBE_CLASSES: Final = (GUARANTEED, BURSTABLE, BEST_EFFORT)

CGROUPFS, SYSTEMD = "cgroupfs", "systemd"
#: Why values of one pod are not written to the folder of a class.
MANY_PODS = "it is the cgroup of many pods, and none of this pod's own"
_ROOTS = {SYSTEMD: "kubepods.slice", CGROUPFS: "kubepods"}
_CLASS_FOLDERS = {
    SYSTEMD: {BURSTABLE: "kubepods-burstable.slice", BEST_EFFORT: "kubepods-besteffort.slice"},
    CGROUPFS: {BURSTABLE: "burstable", BEST_EFFORT: "besteffort"},
}
_POD_PREFIXES = {
    GUARANTEED: "kubepods-pod",
    BURSTABLE: "kubepods-burstable-pod",
    BEST_EFFORT: "kubepods-besteffort-pod",
}
#: The prefix of systemd's scopes, by the runtime in the id.
_SCOPES = {"docker": "docker-", "containerd": "cri-containerd-", "pouch": "pouch-", "cri-o": "crio-"}
_SCOPES["nri-engine"] = "nri-"  # this project's own
#: The runtimes whose containers' folders are known, as the ids of containers name them.
RUNTIMES = frozenset(_SCOPES)


def joined(*parts: str) -> str:
    """Join as Go does: what looks absolute later on does not throw away what is before it."""
    text = "/".join(part for part in parts if part)
    return posixpath.normpath(text) if text else ""


def kube_class_path(kube_class: str, driver: str = SYSTEMD) -> str:
    """The folder of a Kubernetes QoS class; that of guaranteed pods is the root of all pods."""
    return joined(_ROOTS[driver], _CLASS_FOLDERS[driver].get(kube_class, ""))


#: The folders of classes, by either driver.
_SHARED = frozenset(kube_class_path(kube, driver) for kube in (GUARANTEED, BURSTABLE, BEST_EFFORT) for driver in _ROOTS)


def of_many_pods(folder: str) -> bool:
    """Whether a folder is that of a Kubernetes QoS class, and so no pod's own."""
    return folder.strip("/") in _SHARED


def pod_path(kube_class: str, uid: str, driver: str = SYSTEMD) -> str:
    """The folder of a pod."""
    if driver == CGROUPFS:
        return joined(kube_class_path(kube_class, driver), f"pod{uid}")
    prefix = _POD_PREFIXES.get(kube_class)
    folder = f"{prefix}{uid.replace('-', '_')}.slice" if prefix else ""
    return joined(kube_class_path(kube_class, driver), folder)


def container_folder(container_id: str, driver: str = SYSTEMD) -> tuple[str, str]:
    """Return the runtime and the folder's name of a container. Raises ValueError for an id of another form."""
    runtime, mark, rest = container_id.partition("://")
    if not mark:
        raise ValueError(f"{container_id!r} is not a container id such as containerd://...")
    if runtime not in _SCOPES:
        raise ValueError(f"{container_id!r} is of a runtime that is not known")
    number = rest.split("://")[0]
    if "/" in number or number in (".", ".."):  # another folder than one in its pod's
        raise ValueError(f"{container_id!r} has an id that is not the name of a folder")
    return runtime, number if driver == CGROUPFS else f"{_SCOPES[runtime]}{number}.scope"


def container_path(pod_folder: str, container_id: str, driver: str = SYSTEMD) -> str:
    """The folder of a container, below that of its pod; "" if the id has another form."""
    try:
        return joined(pod_folder, container_folder(container_id, driver)[1])
    except ValueError:
        return ""


def kube_class_of(path: str) -> str:
    """The Kubernetes QoS class that a folder's path tells."""
    return BEST_EFFORT if "besteffort" in path else BURSTABLE if "burstable" in path else GUARANTEED
