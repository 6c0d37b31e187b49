"""Stages of memory QoS. Next: `tests.strategy_cases.slo`."""

from __future__ import annotations

from typing import Any

from nri.kube.quantity import capped, ceil
from nri.policies import paths
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.loops import memory_qos
from nri.policies.koordinator.names import BATCH_MEMORY, BE
from nri.policies.manifest import active, kube_class
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from tests.strategy_cases.tree import Tree

__all__ = ["STAGES"]

Json = dict[str, Any]
_MAX = "9223372036854775807"


def _classes(given: Json) -> dict[str, Json | None]:
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy") or {}
    return {key: (parts or {}).get("memoryQOS") for key, parts in strategy.items() if key.endswith("Class")}


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
    return {"memoryQOS": _config(given, each["pod"]) or None}


def _bytes(spec: Json, part: str, name: str) -> int:
    asked = ((spec.get("resources") or {}).get(part) or {}).get(name)
    return 0 if asked is None else max(ceil(capped(asked)), 0)


def _pod(given: Json, each: Json) -> memory_qos.Pod:
    pod, folder = each["pod"], each["cgroup_dir"]
    name = BATCH_MEMORY if pod_class.default_qos(pod) == BE else "memory"
    numbers = {one["name"]: one.get("containerID", "") for one in pod["status"].get("containerStatuses", ())}
    containers = [
        memory_qos.Container(
            paths.container_path(folder, numbers[spec["name"]]),
            _bytes(spec, "requests", name),
            _bytes(spec, "limits", name),
        )
        for spec in pod["spec"].get("containers") or ()
        if numbers.get(spec["name"])
    ]
    request = pod_class.request(pod, name)
    return memory_qos.Pod(folder, kube_class(pod), _config(given, pod), request, containers)


def _reconcile(given: Json) -> Json:
    tree = Tree(given)
    outcomes = [_round({**given, **step}, tree) for step in given.get("steps") or [{}]]
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _round(given: Json, tree: Tree) -> Json:
    node, classes = given.get("node"), _classes(given)
    if not node or not classes:
        return {"files": dict(tree.files)}
    pods = [_pod(given, each) for each in given.get("pods") or () if active(each["pod"])]
    folders = {name: paths.kube_class_path(name) for name in (GUARANTEED, BURSTABLE, BEST_EFFORT)}
    allocatable = ceil(capped(node["status"]["allocatable"]["memory"]))
    found = memory_qos.targets(pods, classes, allocatable, folders)
    shown: Json = {"qos": [], "pod": [], "container": []}
    for each in found:
        value = _MAX if each.value == -1 else str(each.value)
        shown[each.level].append({"path": tree.path(each.folder, each.knob), "value": value})
        if not (value == _MAX and tree.read(each.folder, each.knob) == "max"):
            tree.apply([(each.folder, each.knob, value)])
    return {"files": dict(tree.files), "targets": shown}


STAGES = {"pod_config": _pod_config, "reconcile": _reconcile}
