"""Running pods with their cgroups and pause containers.

A cgroup that the pod's source reports takes precedence over a computed cgroup. For a static pod, an apiserver lists a
uid that differs from the uid in the cgroup, the hash of the pod's file. The hash is trusted only if no other pod claims
it, because any user who can create pods can write the annotation. The pause container is the only cgroup of a pod that
is not in the pod's status.
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
#: A uid, which becomes part of a path; pods that a runtime defines need not have a UUID.
_IS_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_IS_HASH: Final = re.compile(r"[0-9a-f]{32}")
#: The exceptions that reading a malformed pod can raise.
_MALFORMED_POD_ERRORS: Final = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError)
#: In the names of the cgroups that runtimes create for their monitors in the cgroup of a pod.
_CONMON: Final = "conmon-"
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def running(
    pods: Iterable[Mapping[str, Any]],
    hierarchies: Hierarchies,
    driver: str,
    failed: Callable[[str, Exception], None] = lambda _key, _error: None,
) -> Iterator[Pod]:
    """Yield the running and pending pods.

    Args:
        pods: API objects.
        hierarchies: the machine's cgroups.
        driver: the kubelet's cgroup driver.
        failed: called with the name and error of each malformed pod; such a pod is left out.
    """
    listed = [pod for pod in pods if _runs(pod)]
    uids = Counter(uid for pod in listed for uid in {manifest.uid_of(pod), _hash_of(pod)} if uid)
    for pod in listed:
        try:
            listed_pod = _listed_pod(pod, uids, hierarchies, driver)
        except _MALFORMED_POD_ERRORS as error:
            failed(manifest.key_of(pod), error)
        else:
            if listed_pod.folder:
                yield listed_pod


def _runs(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is running or pending, and has the form of a pod."""
    try:
        meta = pod.get("metadata") or {}
        words = (meta.get("annotations") or {}, meta.get("labels") or {})
        return manifest.active(pod) and bool(manifest.uid_of(pod)) and all(isinstance(word, dict) for word in words)
    except _MALFORMED_POD_ERRORS:
        return False


def _listed_pod(pod: Mapping[str, Any], uids: Counter[str], hierarchies: Hierarchies, driver: str) -> Pod:
    uid, hashed = manifest.uid_of(pod), _hash_of(pod)
    if _IS_UID.fullmatch(uid) is None:  # the path could lead to another cgroup
        raise ValueError(f"uid {plain(uid, 40)} is not valid")
    if not manifest.key_of(pod).isprintable():  # the name is written to files of other programs
        raise ValueError(f"name {plain(manifest.key_of(pod), 80)} is not valid")
    folder, made_by = _reported_folder(pod), driver
    if folder:
        made_by = paths.SYSTEMD if folder.endswith(".slice") else paths.CGROUPFS
    else:
        if manifest.kube_class(pod) not in KUBE_CLASSES:  # otherwise the values would apply to all pods
            raise ValueError(f"{str(manifest.kube_class(pod))[:40]!r} is not a Kubernetes QoS class")
        folder_uid = hashed if hashed and hashed != uid and uids[hashed] == 1 else uid
        folder = paths.pod_path(manifest.kube_class(pod), folder_uid, driver)
    return manifest.listed_pod(pod, folder, _sandbox_id(pod, folder, hierarchies, made_by), made_by)


def _reported_folder(pod: Mapping[str, Any]) -> str:
    """Return the cgroup that the pod's source reports, or "" if it reports none. Slices of systemd are expanded."""
    parent = pod.get("cgroupParent")
    if not isinstance(parent, str) or not parent:
        return ""
    try:
        return expand_slice(parent.strip("/"))
    except ValueError:
        return ""


def _hash_of(pod: Mapping[str, Any]) -> str:
    """Return the uid that the kubelet gave a static pod, from the annotations of the mirror pod; "" for other pods."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(_HASH, "") if _MIRROR in annotations else ""
    return text if isinstance(text, str) and _IS_HASH.fullmatch(text) else ""


def _sandbox_id(pod: Mapping[str, Any], folder: str, hierarchies: Hierarchies, driver: str) -> str:
    """Return the id of a pod's pause container, or "" if it cannot be determined."""
    status, names, runtimes = pod.get("status") or {}, set(), set()
    for container in (container for key in _STATUSES for container in status.get(key) or ()):
        try:
            runtime, name = container_name(Driver(driver), container.get("containerID") or "")
        except ValueError:
            return ""
        names.add(name)
        runtimes.add(runtime)
    if len(runtimes) != 1:
        return ""
    try:
        other_names = [name for name in hierarchies.below(folder) if name not in names and _CONMON not in name]
    except ValueError:
        return ""
    return _number(other_names[0], runtimes.pop(), driver) if len(other_names) == 1 else ""


def _number(name: str, runtime: str, driver: str) -> str:
    """Return the id of a container from the name of its cgroup, or "" if the name is not in this runtime's form."""
    prefix, suffix = SCOPES[runtime], ".scope"
    if driver == paths.CGROUPFS:  # with cgroupfs only CRI-O has a prefix
        prefix, suffix = prefix if runtime == "cri-o" else "", ""
    if not (name.startswith(prefix) and name.endswith(suffix)):
        return ""
    return f"{runtime}://{name.removeprefix(prefix).removesuffix(suffix)}"
