"""Targets for what the node agent reads of others: annotations of pods through every hook, and documents with rules."""

from __future__ import annotations

import json
from typing import Any

from nri import host
from nri.agent.hooks import STAGES, decide
from nri.agent.koordinator import (
    bandwidths,
    batch_resource,
    core_sched,
    cpu_normalization,
    cpuset,
    gpu,
    group_identity,
    oom_score_adj,
    resctrl,
)
from nri.agent.koordinator import names as n
from nri.agent.koordinator.batch_resource import annotated
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.profile import HOOKS, KINDS
from nri.agent.koordinator.resctrl import INTEL
from nri.agent.model import OOM_SCORE, Container, Pod, Resources, pod_writes, writes
from nri.agent.transports import messages
from nri.host.process import OOM_SCORES
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_ASKED = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
_SHARE = {"koordinator.sh/gpu-memory-ratio": "50", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"}
_PODS = (
    {
        n.LABEL_QOS: "BE",
        batch_resource.ANNOTATION_EXTENDED: {"containers": {"app": {"requests": _ASKED, "limits": _ASKED}}},
        resctrl.ANNOTATION_RESCTRL: {"llc": {"schemata": {"range": [0, 30]}}, "mb": {"schemata": {"percent": 20}}},
        oom_score_adj.ANNOTATION_OOM_SCORE: "5",
        oom_score_adj.ANNOTATION_OOM_SCORES: {"app": 7},
    },
    {
        n.LABEL_QOS: "LS",
        gpu.LABEL_GPU_ISOLATION: "HAMi-core",
        cpuset.ANNOTATION_STATUS: {"cpuset": "0-1", "numaNodeResources": [{"node": 0, "resources": {"cpu": "2"}}]},
        n.ANNOTATION_DEVICES: {
            "gpu": [{"minor": 0, "resources": _SHARE}],
            "rdma": [{"id": "0000:81:00.0", "extension": {"vfs": [{"busID": "0000:81:00.1"}]}}],
        },
        group_identity.ANNOTATION_CPU_QOS: {"enable": True, "groupIdentity": 2},
        bandwidths.ANNOTATION_NETWORK_QOS: {"ingressLimit": "10M", "egressLimit": "1G"},
    },
)
_POOLS = '[{"socket": 0, "node": 0, "cpuset": "0-3"}]'
_META = {
    "annotations": {
        cpuset.ANNOTATION_SHARE_POOLS: _POOLS,
        cpuset.ANNOTATION_CPU_MANAGER: '{"policy": "static"}',
        cpuset.ANNOTATION_SYSTEM_QOS: '{"cpuset": "0"}',
        cpu_normalization.ANNOTATION_RATIO: "1.2",
    }
}
_CLASS = {
    "cpuQOS": {"enable": True, "groupIdentity": -1, "schedIdle": 1, "coreExpeller": True},
    "networkQOS": {"enable": True, "ingressLimit": 20, "egressRequest": "10M"},
}
_SPEC = {
    "resourceQOSStrategy": {"policies": {"cpuPolicy": "coreSched", "netQOSPolicy": "tc"}, "beClass": _CLASS},
    "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"},
    "systemStrategy": {"totalNetworkBandwidth": "10G"},
    "hostApplications": [{"name": "db", "qos": "LS", "cgroupPath": {"base": "CgroupRoot", "relativePath": "db"}}],
}
_DOCUMENTS = ({"metadata": _META, "spec": _SPEC}, {"metadata": _META}, {"spec": _SPEC})
_KEYS = (*_PODS[0], *_PODS[1], "containers", "app", "limits", "cpuset", "node", "gpu", "rdma", "minor", "llc", "mb")
_RULE_KEYS = ("metadata", "spec", *_META["annotations"], *_SPEC, *_CLASS, *_CLASS["cpuQOS"])


class _Devices:
    """A machine on which every RDMA device is there."""

    def verbs(self, pci_address: str) -> list[str]:
        return ["uverbs0"]

    def numbers(self, path: str) -> tuple[int, int]:
        return 231, 0


_NODE = Node(
    identity=group_identity.rule_of(_SPEC),
    cpus=cpuset.rule_of({"metadata": _META}),
    core=core_sched.rule_of(_SPEC),
    ratio=1.2,
    cache=Cache((0, 1), 0xFFF, INTEL),
    devices=_Devices(),
    gates=frozenset(row.name for row in HOOKS),
)
_OF_PODS = ("PreRunPodSandbox", "PreRemoveRunPodSandbox", "ReconcilePod")
_SAID = Resources(cpu_shares=1024, cfs_quota=100_000, cpuset="0-3", memory_limit=1 << 30)


def _tree(data: bytes) -> Any:
    """The input as JSON, as it comes from an apiserver or a file; null if it is none."""
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _annotations(data: bytes) -> None:
    """Any annotations through all hooks: what comes out can be said to a runtime, and written or refused."""
    tree = _tree(data)
    if not isinstance(tree, dict):
        return
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in tree.items()}
    pod = Pod("n", "p", "u", texts, texts, "kubepods/podu", _SAID, annotated(texts))
    app = Container(pod, "containerd://1", "app", "kubepods/podu/1", resources=_SAID)
    for stage in STAGES:
        if stage not in ("KubeQoS", "HostApplication"):
            context = pod if stage in _OF_PODS else app
            _carried(decide(HOOKS, stage, context, _NODE).changes)


def _carried(changes: Any) -> None:
    messages.adjustment(changes).SerializeToString()
    for write in (*pod_writes("kubepods/podu", changes), *writes("kubepods/podu/1", changes)):
        if write.knob == OOM_SCORE:  # of processes, and no cgroup's
            assert int(write.value) in OOM_SCORES
            continue
        try:
            host.knob(write.knob).parse(write.value)
        except ValueError as error:
            assert str(error)


def _rules(data: bytes) -> None:
    """Any document as any kind of rule: taken, or refused with a reason."""
    document = _tree(data)
    for kind in KINDS:
        try:
            KINDS[kind].read(document)
        except ValueError as error:
            assert str(error)


TARGETS = (
    Target("agent-annotations", inputs.documents(_PODS, _KEYS), _annotations),
    Target("agent-documents", inputs.documents(_DOCUMENTS, _RULE_KEYS), _rules),
)
