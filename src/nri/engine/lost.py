"""Records in place of those that cannot be read, so that their pods and containers can be stopped and removed.

The values come from other files and from the kernel: the annotations of the container's OCI spec name its pod, and
cgroups are found by their names. Such a container is in the state unknown, and such a pod is not ready, until a client
removes it.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterable, Mapping
from typing import Any

from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lifecycle.inventory import read_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState

__all__ = ["RECORD_LOST", "lost_container", "lost_pod"]

#: The reason of a container whose record cannot be read.
RECORD_LOST = "RecordLost"
_KEY = "io.kubernetes.cri."
#: Plugins were notified of it, as of each one that was made, and are to be notified of its end.
_NRI = {"told": "created"}


def lost_container(identity: str, complaint: str, machinery: Machinery, cgroups: Cgroups) -> ContainerRecord:
    """A record for a container; its `pod_id` is "" if nothing names the pod. The complaint is its message."""
    bundle = machinery.places.bundle(identity)
    annotations = _annotations(machinery, identity)
    name = annotations.get(f"{_KEY}container-name") or identity
    image = annotations.get(f"{_KEY}image-name", "")
    return ContainerRecord(
        id=identity,
        name=identity,
        config={"metadata": {"name": name}, "image": {"image": image}},
        created_at_ns=time.time_ns(),
        nri=dict(_NRI),
        pod_id=annotations.get(f"{_KEY}sandbox-id", ""),
        state=ContainerState.UNKNOWN,
        image=image,
        runtime_handler=_handler(machinery, identity),
        bundle=str(bundle),
        cgroup_path=_cgroup(cgroups, identity),
        reason=RECORD_LOST,
        message=complaint,
    )


def lost_pod(identity: str, machinery: Machinery, cgroups: Cgroups, containers: Iterable[ContainerRecord]) -> PodRecord:
    """A record for a pod that is not ready, after its containers, which know its name and its cgroup."""
    cgroup = _cgroup(cgroups, identity)
    parents = [posixpath.dirname(path) for path in (cgroup, *(row.cgroup_path for row in containers)) if path]
    own = machinery.pod_cgroup(identity)
    metadata: dict[str, str] = {}
    for container in containers:
        annotations = _annotations(machinery, container.id)
        for key in ("name", "namespace", "uid"):
            metadata.setdefault(key, annotations.get(f"{_KEY}sandbox-{key}", ""))
    metadata["name"] = metadata.get("name") or identity
    parent = parents[0] if parents else own
    bundle = machinery.places.bundle(identity)
    return PodRecord(
        id=identity,
        name=identity,
        # A cgroup that a client has named is the client's to remove.
        config={"metadata": metadata, "linux": {"cgroup_parent": "" if parent == own else parent}},
        created_at_ns=time.time_ns(),
        nri=dict(_NRI),
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        state=PodState.STOPPING,
        runtime_handler=_handler(machinery, identity),
        cgroup_parent=parent,
        cgroup_path=parent,
        bundle=str(bundle) if cgroup or bundle.exists() else "",
    )


def _annotations(machinery: Machinery, identity: str) -> Mapping[str, str]:
    """The annotations of a bundle's spec that are text; {} without a spec that can be read."""
    try:
        rows: Any = read_spec(machinery.places.bundle(identity)).get("annotations")
    except (OSError, ValueError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {key: text for key, text in rows.items() if isinstance(text, str) and text.isascii() and text.isprintable()}


def _handler(machinery: Machinery, identity: str) -> str:
    """The handler whose OCI runtime has the container; the default one if none has it."""
    handlers = [name for name in machinery.config.runtimes if (machinery.places.runtime(name) / identity).exists()]
    return handlers[0] if handlers else machinery.config.default_runtime


def _cgroup(cgroups: Cgroups, identity: str) -> str:
    """The container's own cgroup, "" if there is none."""
    paths = [path for path in cgroups.find(identity) if not posixpath.basename(path).startswith("conmon-")]
    return paths[0] if paths else ""
