"""Stages of memory QoS. Next: `tests.strategy_cases.slo`."""

from __future__ import annotations

from typing import Any

from nri.kube.quantity import capped, ceil
from nri.policies import paths
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.loops import memory_qos
from nri.policies.koordinator.names import BATCH_MEMORY
from nri.policies.manifest import active, kube_class
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from tests.strategy_cases.tree import Tree

__all__ = ["STAGES"]

Json = dict[str, Any]
_MAX = "9223372036854775807"


def _classes(given: Json) -> dict[str, Json | None]:
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy") or {}
    return {key: parts.get("memoryQOS") for key, parts in strategy.items() if key.endswith("Class") and parts}


def _config(given: Json, pod: Json) -> memory_qos.Config:
    meta = pod["metadata"]
    key = memory_qos.CLASS_KEYS[pod_class.default_qos(pod)]
    node = _classes(given).get(key)
    annotation = (meta.get("annotations") or {}).get(memory_qos.ANNOTATION_MEMORY)
    try:
        return memory_qos.of_pod(annotation, node, key)
    except ValueError:
        return node or {}


def _pod_config(given: Json) -> Json:
    (each,) = given["pods"]
    found = _config(given, each["pod"])
    key = memory_qos.CLASS_KEYS[pod_class.default_qos(each["pod"])]
    return {"memoryQOS": dict(found) if found or key in _classes(given) else None}


def _bytes(spec: Json, part: str, name: str) -> int:
    asked = ((spec.get("resources") or {}).get(part) or {}).get(name)
    return 0 if asked is None else max(ceil(capped(asked)), 0)


def _pod(given: Json, each: Json) -> memory_qos.Pod:
    pod, folder = each["pod"], each["cgroup_dir"]
    batch = pod_class.labelled_be(pod["metadata"].get("labels") or {})
    name = BATCH_MEMORY if batch else "memory"
    numbers = {
        one["name"]: path
        for part in ("containerStatuses", "initContainerStatuses")  # of one name the latter counts
        for one in (pod.get("status") or {}).get(part) or ()
        if (path := paths.container_path(folder, one.get("containerID", "")))
    }
    containers = [
        memory_qos.Container(numbers[spec["name"]], _bytes(spec, "requests", name), _bytes(spec, "limits", name))
        for spec in pod["spec"].get("containers") or ()
        if spec["name"] in numbers
    ]
    request, limit = pod_class.request(pod, name), pod_class.limit(pod, name)
    return memory_qos.Pod(folder, kube_class(pod), _config(given, pod), request, containers, limit)


def _reconcile(given: Json) -> Json:
    tree = Tree(given)
    outcomes = [_round({**given, **step}, tree) for step in given.get("steps") or [{}]]
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _round(given: Json, tree: Tree) -> Json:
    node, classes = given.get("node"), _classes(given)
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy")
    if not node or strategy is None or (node.get("status") or {}).get("allocatable") is None:
        return {"files": dict(tree.files)}
    pods = [_pod(given, each) for each in given.get("pods") or () if active(each["pod"])]
    folders = {name: paths.kube_class_path(name) for name in (GUARANTEED, BURSTABLE, BEST_EFFORT)}
    allocatable = ceil(capped(node["status"]["allocatable"].get("memory", 0)))
    found = memory_qos.targets(pods, classes, allocatable, folders)
    shown: Json = {"qos": [], "pod": [], "container": []}
    for each in found:
        if not tree.known(each.knob):
            continue
        value = _MAX if each.value == -1 else str(each.value)
        shown[each.level].append({"path": tree.path(each.folder, each.knob), "value": value})
        if not (value == _MAX and tree.read(each.folder, each.knob) == "max"):
            tree.apply([(each.folder, each.knob, value)])
    return {"files": dict(tree.files), "targets": shown}


STAGES = {"pod_config": _pod_config, "reconcile": _reconcile}
