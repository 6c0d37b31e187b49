"""A Kubernetes manifest as the messages that a runtime would send to its plugins. Pure but for reading the file.

Ids are made from names, so the same manifest gives the same messages. Additions of a kubelet or a runtime (labels,
cgroup paths, usual mounts, resource arithmetic) are made as containerd's CRI has them, as far as they can be known
without a node; values that come from the cluster are left empty and noted. Next: `nri.kube.container`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from nri.api import messages as m
from nri.config import Source, parse_text
from nri.errors import ConfigError
from nri.kube import kubelet, quantity
from nri.kube.container import ContainerReader
from nri.kube.document import Document, parts
from nri.kube.image_config import ImageConfig

__all__ = ["Workload", "read_manifests"]

#: The most of a resource where messages have less room than for the largest quantity: a quota is in microseconds.
_MOST = {"cpu": 10**9}


@dataclass(slots=True)
class Workload:
    """A pod and its containers, in the order in which they are created.

    Attributes:
        pod: the pod.
        containers: its containers, those that initialize it first.
        notes: what could not be known, for people.
    """

    pod: m.PodSandbox
    containers: list[m.Container] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_manifests(source: Source, image: ImageConfig | None = None) -> list[Workload]:
    """Read every Pod, and the pod template of every Deployment, DaemonSet, StatefulSet, Job or CronJob, in their order.

    Documents without a pod are passed over. ConfigError says what is wrong, and where; no pod at all is wrong, too.
    """
    found = list[Workload]()
    twins: Counter[tuple[str, str]] = Counter()
    for part in parts(source):
        root = parse_text(part)
        document = Document(part, root)
        for tree in _pods_in(document, root):
            found.append(_workload(document, tree, image or ImageConfig(), twins))
    if not found:
        raise ConfigError(source.name, "", "holds no Pod, nor anything with a pod template", "kind: Pod")
    return found


def _pods_in(document: Document, tree: Any) -> list[dict[str, Any]]:
    """List the pods that a document holds: one, or those of a List."""
    if isinstance(tree, dict) and tree.get("kind") == "List":
        return [pod for item in document.items(tree, "items") for pod in _pods_in(document, item)]
    pod = _find_pod(document, tree)
    return [] if pod is None else [pod]


def _find_pod(document: Document, tree: Any) -> dict[str, Any] | None:
    """Find the pod, or the pod template with the name and namespace of its owner, that a document holds."""
    if not isinstance(tree, dict):
        return None
    if tree.get("kind") == "Pod":
        return tree
    owner, holder = tree.get("metadata") or {}, tree.get("spec")
    if isinstance(holder, dict) and isinstance(holder.get("jobTemplate"), dict):
        holder = holder["jobTemplate"].get("spec")
    template = holder.get("template") if isinstance(holder, dict) else None
    if not isinstance(template, dict):
        return None
    named = {key: owner.get(key) for key in ("name", "namespace")} if isinstance(owner, dict) else {}
    return {**template, "metadata": {**named, **document.table(template, "metadata", "spec.template.")}}


def _workload(
    document: Document, tree: dict[str, Any], image: ImageConfig, twins: Counter[tuple[str, str]]
) -> Workload:
    """Make the messages of a pod and of its containers; `twins` counts the pods of each namespace and name so far."""
    spec, metadata = document.table(tree, "spec"), document.table(tree, "metadata")
    containers = [
        *document.tables(spec, "initContainers", "spec."),
        *document.tables(spec, "containers", "spec."),
    ]
    if not containers:
        raise document.error("a pod needs at least one container", "spec.containers", spec or None)
    wanted = [_quantities(document, one, place) for place, one in enumerate(containers)]
    qos = kubelet.qos_class(wanted)
    pod = _pod(document, spec, metadata, qos, twins)
    reader = ContainerReader(document, spec, pod, image, qos)
    made = [reader.read(one, quantities) for one, quantities in zip(containers, wanted, strict=True)]
    return Workload(pod, made, reader.notes)


def _pod(
    document: Document, spec: dict[str, Any], metadata: dict[str, Any], qos: str, twins: Counter[tuple[str, str]]
) -> m.PodSandbox:
    """Make the message of the pod."""
    name = document.text(metadata, "name", "metadata.") or "pod"
    namespace = document.text(metadata, "namespace", "metadata.") or "default"
    twins[namespace, name] += 1
    names = [namespace, name, *map(str, range(2, twins[namespace, name] + 1))]
    uid = document.text(metadata, "uid", "metadata.") or kubelet.make_uid(*names)
    pod = m.PodSandbox(
        id=kubelet.make_id("sandbox", *names),
        name=name,
        uid=uid,
        namespace=namespace,
        labels=document.pairs(metadata, "labels", "metadata."),
        annotations=document.pairs(metadata, "annotations", "metadata."),
        runtime_handler=document.text(spec, "runtimeClassName", "spec."),
    )
    pod.linux.cgroup_parent = kubelet.cgroup_parent(qos, uid)
    pod.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{pod.id}"
    return pod


def _quantities(document: Document, container: dict[str, Any], place: int) -> dict[str, Fraction]:
    """Read requests and limits as ``requests.cpu`` and so on; a limit without a request is one, too."""
    found: dict[str, Fraction] = {}
    resources = document.table(container, "resources")
    for kind in ("limits", "requests"):
        table = document.table(resources, kind, "resources.")
        for name, value in table.items():
            where = f"spec.containers[{place}].resources.{kind}.{name}"
            try:
                found[f"{kind}.{name}"] = quantity.bounded(value, _MOST.get(str(name), quantity.MOST))
            except ValueError as error:
                raise document.error(str(error), where, table, str(name)) from None
    for key in [key for key in found if key.startswith("limits.")]:
        found.setdefault(key.replace("limits.", "requests."), found[key])
    return found
