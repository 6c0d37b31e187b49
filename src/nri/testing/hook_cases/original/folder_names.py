"""Names of cgroup folders, read back: the pod or the container that a folder is of, under both drivers.

Next: `nri.testing.hook_cases.original.docker`.
"""

from __future__ import annotations

import posixpath
import re

from nri.policies.koordinator.paths import CGROUPFS, SYSTEMD

__all__ = ["container_id_of", "is_container_path", "pod_id_of"]

_POD_FOLDERS = {
    CGROUPFS: re.compile(r"pod(.*)", re.DOTALL),
    SYSTEMD: re.compile(r"kubepods(?:-burstable|-besteffort)?-pod(.*)\.slice", re.DOTALL),
}


def pod_id_of(folder: str, driver: str = SYSTEMD) -> str:
    """The pod's uid in a folder's name, as the driver writes it. Raises ValueError if it is no pod's."""
    found = _POD_FOLDERS[driver].fullmatch(folder)
    if found is None:
        raise ValueError(f"{folder!r} is no folder of a pod")
    return found[1]


def container_id_of(folder: str, driver: str = SYSTEMD) -> str:
    """The container's hash in a folder's name. Raises ValueError if it is no container's."""
    if driver == CGROUPFS:
        return folder
    for prefix in ("docker-", "cri-containerd-", "crio-"):
        if folder.startswith(prefix) and folder.endswith(".scope"):
            return folder[len(prefix) : -len(".scope")]
    if folder.startswith("crio-"):
        return folder[len("crio-") :]
    raise ValueError(f"{folder!r} is no folder of a container")


def is_container_path(path: str, driver: str = SYSTEMD) -> bool:
    """Whether the last folder of a path is a container's."""
    try:
        container_id_of(posixpath.basename(path.rstrip("/")), driver)
    except ValueError:
        return False
    return True
