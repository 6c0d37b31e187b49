"""Pods of the API as running pods: their folders under the kubelet's driver, and their pause containers.

Rules: reads only. A folder that the source of the pods knows goes before one that is computed. A pod that has ended
has no folders and is left out. A static pod is listed by an apiserver under another uid than its folder has, the hash
of its file; that is believed only where no other pod has or claims it, for annotations can be written by all. A
pause container is in no status: it is the one folder of a pod that no status names. Next: :mod:`nri.agent.parts`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import KUBE_CLASSES
from nri.agent.model import Pod
from nri.agent.pods import manifest
from nri.host import Hierarchies
from nri.host.cgroups import expand_slice
from nri.host.cgroups.drivers import SCOPES, Driver, container_name
from nri.text import plain

_HASH: Final = "kubernetes.io/config.hash"
_MIRROR: Final = "kubernetes.io/config.mirror"
#: A uid, which becomes the name of a folder; a runtime's own pods need not have a UUID.
_IS_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_IS_HASH: Final = re.compile(r"[0-9a-f]{32}")
#: The exceptions of reading an object of another form than a pod's.
_SENSELESS: Final = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def running(
    pods: Iterable[Mapping[str, Any]],
    hierarchies: Hierarchies,
    driver: str,
    failed: Callable[[str, Exception], None] = lambda _key, _error: None,
) -> Iterator[Pod]:
    """Yield the pods that run or are about to.

    Args:
        pods: API objects.
        hierarchies: the machine's cgroups.
        driver: the kubelet's.
        failed: told of each pod that makes no sense, by its name; it is left out, and the others are not.
    """
    listed = [pod for pod in pods if _runs(pod)]
    uids = Counter(uid for pod in listed for uid in {manifest.uid_of(pod), _hash_of(pod)} if uid)
    for pod in listed:
        try:
            found = _found(pod, uids, hierarchies, driver)
        except _SENSELESS as error:
            failed(manifest.key_of(pod), error)
        else:
            if found.folder:
                yield found


def _runs(pod: Mapping[str, Any]) -> bool:
    """Whether it runs, and has at least the form of a pod."""
    try:
        meta = pod.get("metadata") or {}
        words = (meta.get("annotations") or {}, meta.get("labels") or {})
        return manifest.active(pod) and bool(manifest.uid_of(pod)) and all(isinstance(each, dict) for each in words)
    except _SENSELESS:
        return False


def _found(pod: Mapping[str, Any], uids: Counter[str], hierarchies: Hierarchies, driver: str) -> Pod:
    uid, hashed = manifest.uid_of(pod), _hash_of(pod)
    if _IS_UID.fullmatch(uid) is None:  # its folder would be another one than a pod's
        raise ValueError(f"{plain(uid, 40)} is no uid")
    if not manifest.key_of(pod).isprintable():  # it goes into other programs' files
        raise ValueError(f"{plain(manifest.key_of(pod), 80)} is not the name of a pod")
    folder, made_by = _reported_folder(pod), driver
    if folder:
        made_by = paths.SYSTEMD if folder.endswith(".slice") else paths.CGROUPFS
    else:
        if manifest.kube_class(pod) not in KUBE_CLASSES:  # else its values would be those of all pods
            raise ValueError(f"{str(manifest.kube_class(pod))[:40]!r} is not a class of Kubernetes")
        own = hashed if hashed and hashed != uid and uids[hashed] == 1 else uid
        folder = paths.pod_path(manifest.kube_class(pod), own, driver)
    return manifest.listed_pod(pod, folder, _sandbox_id(pod, folder, hierarchies, made_by), made_by)


def _reported_folder(pod: Mapping[str, Any]) -> str:
    """The folder that the pod's source knows; "" if it does not. systemd's last slice is expanded to all of them."""
    given = pod.get("cgroupParent")
    if not isinstance(given, str) or not given:
        return ""
    try:
        return expand_slice(given.strip("/"))
    except ValueError:
        return ""


def _hash_of(pod: Mapping[str, Any]) -> str:
    """The uid that the kubelet gave a static pod, from the annotations of its mirror; "" for others."""
    given = (pod.get("metadata") or {}).get("annotations") or {}
    found = given.get(_HASH, "") if _MIRROR in given else ""
    return found if isinstance(found, str) and _IS_HASH.fullmatch(found) else ""


def _sandbox_id(pod: Mapping[str, Any], folder: str, hierarchies: Hierarchies, driver: str) -> str:
    """The id of a pod's pause container; "" before all containers are known, or where there is no such cgroup."""
    status, known, runtimes = pod.get("status") or {}, set(), set()
    for each in (each for key in _STATUSES for each in status.get(key) or ()):
        try:
            runtime, name = container_name(Driver(driver), each.get("containerID") or "")
        except ValueError:
            return ""
        known.add(name)
        runtimes.add(runtime)
    if len(runtimes) != 1:
        return ""
    try:
        rest = [name for name in hierarchies.below(folder) if name not in known]
    except ValueError:
        return ""
    return _number(rest[0], runtimes.pop(), driver) if len(rest) == 1 else ""


def _number(name: str, runtime: str, driver: str) -> str:
    """The id of a container from the name of its folder; "" if that is not one of this runtime's."""
    prefix, suffix = SCOPES[runtime], ".scope"
    if driver == paths.CGROUPFS:  # there CRI-O alone has a prefix
        prefix, suffix = prefix if runtime == "cri-o" else "", ""
    if not (name.startswith(prefix) and name.endswith(suffix)):
        return ""
    return f"{runtime}://{name.removeprefix(prefix).removesuffix(suffix)}"
