"""Targets for what the node agent reads: answers of an apiserver, rules, pods of a kubelet and of a runtime."""

from __future__ import annotations

import json
from contextlib import suppress

from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import KINDS
from nri.agent.pods.kubelet import pods_of
from nri.agent.pods.verbose_info import container_info, pod_info
from nri.agent.rules.store import RuleStore
from nri.config import Source
from nri.cri.pb import api_pb2 as pb
from nri.errors import ConfigError
from nri.kube.client import objects
from nri.kube.client.objects import PODS, Lines, ObjectReader
from nri.kube.document import objects as documents
from nri.kube.lists import ListSplitter, OversizedObject
from nri.kube.object_cache import ObjectCache
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_POD = '{"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "5", "managedFields": []}}'
_WATCHED = (
    '{"type": "ADDED", "object": '
    + _POD
    + '}\n{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}\n',
    '{"type": "ERROR", "object": {"code": 410, "message": "old", "details": {"retryAfterSeconds": 1}}}\n',
    '{"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [' + _POD + "]}",
)
_RULES = (
    (
        "kind: NodeSLO\nspec:\n  resourceQOSStrategy:\n    policies: {cpuPolicy: coreSched, netQOSPolicy: terway-qos}\n"
        "    beClass: {cpuQOS: {enable: true, groupIdentity: -1}, networkQOS: {enable: true, egressLimit: 10}}\n"
        "  systemStrategy: {totalNetworkBandwidth: 1G}\n"
        "  hostApplications:\n  - {name: a, cgroupPath: {base: Kubepods}}\n"
    ),
    (
        "kind: List\nitems:\n- kind: NodeResourceTopology\n  metadata:\n    annotations:\n"
        """      node.koordinator.sh/cpu-shared-pools: '[{"socket":0,"node":0,"cpuset":"0-3"}]'\n"""
        """      node.koordinator.sh/system-qos-resource: '{"cpuset":"0"}'\n"""
    ),
    "kind: Node\nmetadata: {annotations: {node.koordinator.sh/cpu-normalization-ratio: '1.5'}}\n---\nkind: Node\n",
)
_RUNTIMES = (
    (
        '{"config": {"linux": {"cgroup_parent": "/kubepods/burstable/pod1", "resources": {"cpu_shares": 512, '
        '"cpu_quota": 50000, "cpu_period": 100000, "memory_limit_in_bytes": 67108864, "oom_score_adj": 999}}}}'
    ),
    '{"config": {"linux": {"cgroupParent": "a-pod1.slice", "resources": {"cpuShares": "512", "cpuQuota": "-1"}}}}',
    '{"runtimeSpec": {"linux": {"cgroupsPath": "kubepods-pod1.slice:crio:ab"}}}',
)
_KEYS = ("metadata", "items", "type", "object", "name", "resourceVersion", "code", "message")


def _watch(data: bytes) -> None:
    lines, size = Lines(200), data[0] % 32 + 1 if data else 1
    reader, splitter, remaining = ObjectReader(PODS), ListSplitter(200), ObjectCache()
    matches: list[bytes | OversizedObject] = []
    with suppress(ValueError):
        for start in range(1, len(data), size):
            matches += lines.feed(data[start : start + size])
    assert all(isinstance(line, OversizedObject) or (0 < len(line) <= 200 and b"\n" not in line) for line in matches)
    for line in (*matches, data):
        with suppress(ValueError):
            event = reader.read_event(line)
            assert event.type in ("BOOKMARK", "ERROR") or len(objects.key_of(event.object)) == 2
    with suppress(ValueError):
        for start in range(0, len(data), size):
            for item in splitter.feed(data[start : start + size]):
                reader.read_item(item, remaining)
        objects.read_page(splitter.end())
    assert all(objects.version_of(thing) for thing in remaining.objects.values())
    code, _, after_s = objects.read_status(data)
    assert isinstance(code, int) and after_s >= 0


def _rules(data: bytes) -> None:
    store = RuleStore(Node(), KINDS)
    for document, thing in documents(Source("a.yaml", data.decode(errors="surrogateescape"))):
        for kind in KINDS:
            before = store.node
            store.put(kind, thing, "a.yaml", lambda error, present=document, it=thing: present.place(it, "spec"))  # type: ignore[misc]
            refused = [problem for problem in store.problems() if problem.kind == kind]
            assert not refused or store.node is before
            assert all(problem.error and problem.error.isprintable() for problem in refused)


def _runtime(data: bytes) -> None:
    text = data.decode(errors="replace")
    pod, container = pb.PodSandboxStatusResponse(), pb.ContainerStatusResponse()
    pod.info["info"] = container.info["info"] = text
    words = pod_info(pod)
    assert (words.qos_class == "") == (words.folder == "")
    json.dumps(container_info(container).spec)


def _kubelet(data: bytes) -> None:
    assert all(isinstance(pod["metadata"], dict) for pod in pods_of([data]).objects.values())


TARGETS = (
    Target("apiserver", inputs.texts(_WATCHED), _watch),
    Target("agent-rules", inputs.documents(_RULES, _KEYS), _rules, (ConfigError,)),
    Target("runtime-info", inputs.texts(_RUNTIMES), _runtime, share=0.5),
    Target("kubelet-pods", inputs.texts(_WATCHED), _kubelet, (ValueError,), share=0.5),
)
