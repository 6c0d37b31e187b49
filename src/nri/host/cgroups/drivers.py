"""The paths of Kubernetes' cgroups under both cgroup drivers: build them, and parse them.

A path is relative to a hierarchy, without a leading slash. Under systemd, each slice's name contains the names of the
slices above, and a pod's uid has underscores instead of hyphens.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from nri.host.cgroups.hierarchies import Hierarchies


class Driver(enum.Enum):
    """The program that creates cgroups: the runtime, or systemd."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class KubeQos(enum.Enum):
    """Kubernetes' QoS classes, with their names in its API."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class ParsedCgroup(NamedTuple):
    """The parts of a cgroup's path, or None for parts that the path does not have.

    Attributes:
        pod_uid: the pod's uid, with hyphens as in Kubernetes.
        runtime: the scheme of the runtime, such as `containerd`. Only a systemd scope has it.
    """

    driver: Driver
    kube_qos: KubeQos
    pod_uid: str | None = None
    container_id: str | None = None
    runtime: str | None = None


_TOP = "kubepods"
_CLASSES = {KubeQos.GUARANTEED: "", KubeQos.BURSTABLE: "burstable", KubeQos.BEST_EFFORT: "besteffort"}
#: The prefix of systemd scopes by the runtime's scheme in container ids.
SCOPES: Final = {
    "docker": "docker-",
    "containerd": "cri-containerd-",
    "cri-o": "crio-",
    "iSulad": "isulad-",
    "nri-engine": "nri-",  # this project's own
    "podman": "libpod-",
    "pouch": "pouch-",
}
#: CRI-O alone keeps its prefix without systemd.
_CRIO = SCOPES["cri-o"]
_POD_SLICE = re.compile(r"(?:^|-)pod([^/]+)\.slice$")
_POD_FOLDER = re.compile(r"^pod([^/]+)$")


def driver_in_use(hierarchies: Hierarchies) -> Driver | None:
    """The kubelet's driver on a machine, found by the cgroup of all pods. Returns None before that cgroup exists."""
    drivers = (driver for driver in Driver if hierarchies.exists(qos_path(driver, KubeQos.GUARANTEED)))
    return next(drivers, None)


def qos_path(driver: Driver, kube_qos: KubeQos) -> str:
    """The cgroup of all pods of a QoS class: `kubepods/burstable`. For Guaranteed it is the cgroup of all pods."""
    name = _CLASSES[kube_qos]
    if driver is Driver.CGROUPFS:
        return f"{_TOP}/{name}".rstrip("/")
    return f"{_TOP}.slice" + (f"/{_TOP}-{name}.slice" if name else "")


def pod_path(driver: Driver, kube_qos: KubeQos, uid: str) -> str:
    """The cgroup of a pod. Raises ValueError if the uid cannot be part of a path."""
    _check(uid, "uid of a pod")
    top = qos_path(driver, kube_qos)
    if driver is Driver.CGROUPFS:
        return f"{top}/pod{uid}"
    slice_name = top.rpartition("/")[2].removesuffix(".slice")
    return f"{top}/{slice_name}-pod{uid.replace('-', '_')}.slice"


def container_name(driver: Driver, container_id: str) -> tuple[str, str]:
    """A container's runtime, and the name of its cgroup. Arguments and errors are those of `container_path`."""
    runtime, mark, name = container_id.partition("://")
    if not mark or runtime not in SCOPES:
        raise ValueError(f"{container_id!r} is not a container id with a runtime's scheme, such as containerd://ID")
    _check(name, "id of a container")
    if driver is Driver.CGROUPFS:
        return runtime, f"{_CRIO}{name}" if runtime == "cri-o" else name
    return runtime, f"{SCOPES[runtime]}{name}.scope"


def container_path(driver: Driver, pod: str, container_id: str) -> str:
    """The cgroup of a container below its pod's cgroup.

    Args:
        driver: the cgroup driver.
        pod: the pod's cgroup.
        container_id: the container's id with its scheme, `containerd://ID`.

    Raises:
        ValueError: the id has no scheme, or the scheme of an unknown runtime.
    """
    last = container_name(driver, container_id)[1]
    return f"{pod.rstrip('/')}/{last}" if pod.strip("/") else last


def expand(path: str) -> str:
    """The path for a runtime's cgroup argument: `SLICE:PREFIX:ID` becomes a scope below the slices of that name.

    A path with slashes is returned unchanged, without slashes at its ends. Source: systemd.slice(5); runc and crun keep
    the hyphen of an empty PREFIX.

    Raises:
        ValueError: the argument has colons, but not that form, or SLICE is not a slice.
    """
    if ":" not in path:
        return path.strip("/")
    parts = path.split(":")
    if len(parts) != 3 or not parts[2]:
        raise ValueError(f"{path!r} is neither a path nor of the form SLICE:PREFIX:ID")
    return f"{_slices(parts[0] or 'system.slice')}/{parts[1]}-{parts[2]}.scope"


def expand_slice(name: str) -> str:
    """The path for a runtime's cgroup parent: `a-b.slice` is `a.slice/a-b.slice`.

    A path is returned unchanged, without slashes at its ends.

    Raises:
        ValueError: the name ends like a slice, but is not a valid slice.
    """
    return _slices(name) if name.endswith(".slice") and "/" not in name else name.strip("/")


def _slices(name: str) -> str:
    words = name.removesuffix(".slice").split("-")
    if not name.endswith(".slice") or "/" in name or "" in words:
        raise ValueError(f"{name!r} is not a slice; write for example kubepods-besteffort.slice")
    return "/".join("-".join(words[: count + 1]) + ".slice" for count in range(len(words)))


def kube_qos_of(path: str) -> KubeQos:
    """The QoS class of a path below the cgroup of all pods: Guaranteed, unless the path names another class."""
    for name in path.split("/"):
        for kube_qos in (KubeQos.BEST_EFFORT, KubeQos.BURSTABLE):
            word = _CLASSES[kube_qos]
            if name == word or (f"-{word}-" in f"-{name.removesuffix('.slice')}-" and name.endswith(".slice")):
                return kube_qos
    return KubeQos.GUARANTEED


def parse(path: str) -> ParsedCgroup | None:
    """Parse a pod and a container in a cgroup's path. Returns None if it is not below the cgroup of all pods."""
    names = [name for name in path.split("/") if name]
    tops = [number for number, name in enumerate(names) if _is_top(name)]
    if not tops:
        return None
    driver = Driver.SYSTEMD if names[tops[0]].endswith(".slice") else Driver.CGROUPFS
    pattern = _POD_SLICE if driver is Driver.SYSTEMD else _POD_FOLDER
    for number, name in enumerate(names[tops[0] :], tops[0]):
        if match := pattern.search(name):
            uid = match[1].replace("_", "-") if driver is Driver.SYSTEMD else match[1]
            below = names[number + 1] if number + 1 < len(names) else None
            container_id, runtime = _container(driver, below)
            return ParsedCgroup(driver, kube_qos_of("/".join(names)), uid, container_id, runtime)
    return ParsedCgroup(driver, kube_qos_of("/".join(names)))


def _is_top(name: str) -> bool:
    """Whether this is the cgroup of all pods, or a slice below it."""
    return name == _TOP or (name.endswith(".slice") and _TOP in name.removesuffix(".slice").split("-"))


def _container(driver: Driver, name: str | None) -> tuple[str | None, str | None]:
    """A container's id and runtime, from the last component of its path."""
    if name is None:
        return None, None
    if driver is Driver.CGROUPFS:
        return (name.removeprefix(_CRIO), "cri-o") if name.startswith(_CRIO) else (name, None)
    stem = name.removesuffix(".scope")
    if stem == name:
        return None, None
    for runtime, prefix in SCOPES.items():
        if stem.startswith(prefix) and len(stem) > len(prefix):
            return stem.removeprefix(prefix), runtime
    return stem, None


def _check(name: str, what: str) -> None:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError(f"{name!r} cannot be the {what}")
