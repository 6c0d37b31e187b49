"""Cgroup paths of pods, containers and Kubernetes QoS classes; "" for what has no cgroup.

A container id is `runtime://hash`. Paths have no slash at their end.
"""

from __future__ import annotations

import posixpath
from typing import Final

from nri.host.cgroups import drivers
from nri.host.cgroups.drivers import Driver, KubeQos

__all__ = [
    "BEST_EFFORT",
    "BURSTABLE",
    "CGROUPFS",
    "GUARANTEED",
    "KUBE_CLASSES",
    "MANY_PODS",
    "SYSTEMD",
    "container_path",
    "joined",
    "kube_class_of",
    "kube_class_path",
    "of_many_pods",
    "pod_path",
]

# Kubernetes' QoS classes, in the order of the folders.
GUARANTEED: Final = KubeQos.GUARANTEED.value
BURSTABLE: Final = KubeQos.BURSTABLE.value
BEST_EFFORT: Final = KubeQos.BEST_EFFORT.value
KUBE_CLASSES: Final = (GUARANTEED, BURSTABLE, BEST_EFFORT)

CGROUPFS, SYSTEMD = Driver.CGROUPFS.value, Driver.SYSTEMD.value
#: Why values of one pod are not written to the folder of a class.
MANY_PODS = "it is a cgroup of many pods, not of this pod alone"


def joined(*parts: str) -> str:
    """Join parts as Go does: a later absolute part does not replace the earlier ones."""
    text = "/".join(part for part in parts if part)
    return posixpath.normpath(text) if text else ""


def kube_class_path(kube_class: str, driver: str = SYSTEMD) -> str:
    """The folder of a Kubernetes QoS class; that of guaranteed pods is the root of all pods."""
    return drivers.qos_path(Driver(driver), KubeQos(kube_class if kube_class in KUBE_CLASSES else GUARANTEED))


#: The folders of classes, by either driver.
_SHARED = frozenset(kube_class_path(kube, driver) for kube in KUBE_CLASSES for driver in (SYSTEMD, CGROUPFS))


def of_many_pods(folder: str) -> bool:
    """Whether a folder is that of a Kubernetes QoS class, and so shared by many pods."""
    return folder.strip("/") in _SHARED


def pod_path(kube_class: str, uid: str, driver: str = SYSTEMD) -> str:
    """The folder of a pod; "" for an unknown class, or a uid that cannot be part of a path."""
    try:
        return drivers.pod_path(Driver(driver), KubeQos(kube_class), uid)
    except ValueError:
        return ""


def container_path(pod_folder: str, container_id: str, driver: str = SYSTEMD) -> str:
    """The folder of a container, below that of its pod; "" if the id has another form."""
    try:
        return joined(drivers.container_path(Driver(driver), pod_folder, container_id))
    except ValueError:
        return ""


def kube_class_of(path: str) -> str:
    """The Kubernetes QoS class in a path of any form: of a folder, or a runtime's `SLICE:PREFIX:ID`."""
    return BEST_EFFORT if "besteffort" in path else BURSTABLE if "burstable" in path else GUARANTEED
