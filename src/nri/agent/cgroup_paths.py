"""Cgroup paths of pods, containers and Kubernetes QoS classes; an object without a cgroup has the path "".

A container id is `runtime://hash`. Paths do not end with a slash.
"""

from __future__ import annotations

import posixpath
from typing import Final

from nri.host.cgroups import drivers
from nri.host.cgroups.drivers import Driver, KubeQos

# Kubernetes' QoS classes, in the order in which koordlet visits their folders.
GUARANTEED: Final = KubeQos.GUARANTEED.value
BURSTABLE: Final = KubeQos.BURSTABLE.value
BEST_EFFORT: Final = KubeQos.BEST_EFFORT.value
KUBE_CLASSES: Final = (GUARANTEED, BURSTABLE, BEST_EFFORT)

CGROUPFS, SYSTEMD = Driver.CGROUPFS.value, Driver.SYSTEMD.value
#: Why a value of one pod is not written to the cgroup of a QoS class.
SHARED_CGROUP = "the cgroup belongs to many pods, not to this pod alone"


def joined(*parts: str) -> str:
    """Join paths as Go's `filepath.Join` does: a later absolute path does not replace the earlier paths."""
    text = "/".join(part for part in parts if part)
    return posixpath.normpath(text) if text else ""


def kube_class_path(kube_class: str, driver: str = SYSTEMD) -> str:
    """Return the folder of a Kubernetes QoS class. The class of guaranteed pods has the root folder of all pods."""
    return drivers.qos_path(Driver(driver), KubeQos(kube_class if kube_class in KUBE_CLASSES else GUARANTEED))


#: The folders of QoS classes, for both cgroup drivers.
_SHARED = frozenset(kube_class_path(kube, driver) for kube in KUBE_CLASSES for driver in (SYSTEMD, CGROUPFS))


def is_shared_cgroup(folder: str) -> bool:
    """Return whether a folder belongs to a Kubernetes QoS class, so that many pods share it."""
    return folder.strip("/") in _SHARED


def pod_path(kube_class: str, uid: str, driver: str = SYSTEMD) -> str:
    """Return the folder of a pod, or "" if the class is unknown or the uid cannot be a part of a path."""
    try:
        return drivers.pod_path(Driver(driver), KubeQos(kube_class), uid)
    except ValueError:
        return ""


def container_path(pod_folder: str, container_id: str, driver: str = SYSTEMD) -> str:
    """Return the folder of a container below its pod's folder, or "" if the container id is malformed."""
    try:
        return joined(drivers.container_path(Driver(driver), pod_folder, container_id))
    except ValueError:
        return ""


def kube_class_of(path: str) -> str:
    """Return the Kubernetes QoS class that a path names. The path is a folder or a runtime's `SLICE:PREFIX:ID`."""
    return BEST_EFFORT if "besteffort" in path else BURSTABLE if "burstable" in path else GUARANTEED
