"""Which hook works in which mode: one table of pods, rules and effects that the tests of all three transports share.

It is the acceptance table of this agent: which effect of which hook each transport brings about. Where the original
falls short (a lost clear, a void update, mounts and devices missing behind its proxy) ours is listed as working.

What a row says. `CASES` has one `Case` for each thing to be seen: a hook, a pod with one container, the rules (as the
documents that an apiserver or a file gives), and its `effects`. An `Effect` is one value at one place, and `modes` are
the columns of the table: the transports that bring it about. In a mode that is not listed, the effect must not appear.

How a transport's tests use it, the NRI one in `tests/unit/agent/transports/test_nri_modes.py` being the model:

- parametrise over `CASES`, with `ids=case_id`, and over `UPDATED` for an update by the kubelet;
- hand the pod over in your own form: `case.pod.messages()` (NRI), `case.pod.manifest()` (the API's object); another
  form, such as the CRI's, is a further method of `Pod`, made of the same attributes;
- the rules are `case.documents` for a rule store over `case.base()`, or all at once `case.node()`;
- run the pod through the transport, collect what came of it as a dict `{(place, name): value}`, and compare its
  `outcome` with what is `wanted`: an effect is there if and only if it works.

A further column needs no new rows: add its name to the `modes` of the effects that it has. A new mode is a constant
beside `NRI`, `PROXY` and `STANDALONE`. Values are texts in the unit of the knob (`nri.host.KNOBS`).

| place | name |
|---|---|
| `pod`, `container`, `sandbox` (the pause container) | a knob, such as `cpu.shares`; "" as `cpuset.cpus` is a clear |
| `container` | `env NAME`, `mount DESTINATION`, `device PATH`, `rdt class`, `oom score`, `cookie` |
| `resctrl` | `schemata` of the pod's group, `tasks` in it, `removed` with the pod |
| `BestEffort`, `Burstable`, `Guaranteed` (folders of kube-QoS classes), `host application` | a knob |
| `node` | `tc`, `terway` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import CGROUPFS, pod_path
from nri.agent.koordinator import (
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
from nri.agent.koordinator.node import BatchRule, Cache, Node
from nri.agent.koordinator.resctrl import INTEL
from nri.api import messages as m

__all__ = [
    "CASES",
    "NRI",
    "PROXY",
    "STANDALONE",
    "UPDATED",
    "Case",
    "Effect",
    "OneFunction",
    "Pod",
    "case_id",
    "outcome",
    "wanted",
]

NRI, PROXY, STANDALONE = "nri", "proxy", "standalone"
_ALL = frozenset({NRI, PROXY, STANDALONE})
_ALONE = frozenset({STANDALONE})
_CREATION = frozenset({NRI, PROXY})
UID = "11111111-2222-3333-4444-555555555555"
MAIN, CONTAINER_ID, SANDBOX_ID = "main", "c" * 64, "5" * 64


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with one container. Resources are what the kubelet asks for, 0 is "not set"."""

    qos: str = ""
    kube_class: str = paths.BURSTABLE
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpu_shares: int = 0
    cfs_quota: int = 0
    memory_limit: int = 0

    @property
    def folder(self) -> str:
        """The pod's cgroup, under the driver cgroupfs."""
        return pod_path(self.kube_class, UID, CGROUPFS)

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels, with that of the QoS class."""
        return {**self.labels, **({n.LABEL_QOS: self.qos} if self.qos else {})}

    def resources(self) -> m.LinuxResources:
        """What the kubelet asks for, as NRI says it."""
        resources = m.LinuxResources()
        for value, target in (
            (self.cpu_shares, resources.cpu.shares),
            (self.cfs_quota, resources.cpu.quota),
            (self.memory_limit, resources.memory.limit),
        ):
            if value:
                target.value = value
        return resources

    def messages(self) -> tuple[m.PodSandbox, m.Container]:
        """The pod and its container in NRI's words."""
        pod = m.PodSandbox(
            id=SANDBOX_ID, uid=UID, name="pod", namespace="tests", labels=self.all_labels, annotations=self.annotations
        )
        pod.linux.cgroup_parent = f"/{self.folder}"
        container = m.Container(id=CONTAINER_ID, pod_sandbox_id=SANDBOX_ID, name=MAIN, env=["PATH=/bin"])
        container.linux.cgroups_path = f"/{self.folder}/{CONTAINER_ID}"
        container.linux.resources.CopyFrom(self.resources())
        return pod, container

    def manifest(self) -> dict[str, Any]:
        """The pod as an API object that runs."""
        milli = {"requests": self.cpu_shares * 1000 // 1024, "limits": self.cfs_quota // 100}
        resources: dict[str, Any] = {part: {"cpu": f"{value}m"} for part, value in milli.items() if value}
        if self.memory_limit:
            resources.setdefault("limits", {})["memory"] = str(self.memory_limit)
        meta = {"name": "pod", "namespace": "tests", "uid": UID}
        status = {
            "phase": "Running",
            "qosClass": self.kube_class,
            "containerStatuses": [{"name": MAIN, "containerID": f"containerd://{CONTAINER_ID}"}],
        }
        return {
            "metadata": {**meta, "labels": self.all_labels, "annotations": dict(self.annotations)},
            "spec": {"containers": [{"name": MAIN, "resources": resources}]},
            "status": status,
        }


@dataclass(frozen=True, slots=True)
class Effect:
    """One value at one place. `updated`: an update of the container by the kubelet brings it about as well."""

    place: str
    name: str
    value: str
    modes: frozenset[str] = _ALL
    updated: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Where it is to be found."""
        return self.place, self.name


@dataclass(frozen=True, slots=True)
class Case:
    """A pod under rules, and what comes of it. Only this hook is switched on."""

    hook: str
    title: str
    pod: Pod
    effects: Sequence[Effect]
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def base(self) -> Node:
        """The node before any rule has been read: the machine has a cache to share and one RDMA function."""
        return Node(gates=frozenset({self.hook}), cache=Cache((0,), 0xFFF, INTEL), devices=OneFunction())

    def node(self) -> Node:
        """The node with all rules read."""
        spec = self.documents.get("NodeSLO", {}).get("spec")
        topology, entry = self.documents.get("NodeResourceTopology"), self.documents.get("Node")
        base = self.base()
        ratio = base.ratio if entry is None else cpu_normalization.ratio_of(entry)
        return Node(
            identity=None if spec is None else group_identity.rule_of(spec),
            cpus=None if topology is None else cpuset.rule_of(topology),
            batch=BatchRule(None if spec is None else batch_resource.has_cfs_quota(spec), ratio),
            ratio=ratio,
            core=base.core if spec is None else core_sched.rule_of(spec),
            cache=base.cache,
            devices=base.devices,
            gates=base.gates,
        )


class OneFunction:
    """A machine with one RDMA function, whose device nodes are 231:192."""

    def verbs(self, pci_address: str) -> list[str]:
        """The one verbs device."""
        return ["uverbs0"]

    def numbers(self, path: str) -> tuple[int, int]:
        """The numbers of every node."""
        return 231, 192


def case_id(case: Case) -> str:
    """The name of a case, for pytest."""
    return f"{case.hook}-{case.title}".replace(" ", "-")


def outcome(
    case: Case, results: Mapping[tuple[str, str], str], *, updated: bool = False
) -> dict[tuple[str, str], str | None]:
    """What came of each effect of a case; of those alone that an update brings about as well, if so asked."""
    return {effect.key: results.get(effect.key) for effect in case.effects if effect.updated or not updated}


def wanted(case: Case, works: Callable[[Effect], bool], *, updated: bool = False) -> dict[tuple[str, str], str | None]:
    """What must come of them where these work, and no others."""
    return {
        effect.key: effect.value if works(effect) else None for effect in case.effects if effect.updated or not updated
    }


_SLO = {
    "NodeSLO": {
        "spec": {
            "resourceQOSStrategy": {
                "lsrClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}},
                "lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}},
                "beClass": {"cpuQOS": {"enable": True, "groupIdentity": -1}},
            },
            "hostApplications": [
                {"name": "nginx", "qos": "LS", "cgroupPath": {"base": "CgroupRoot", "relativePath": "host-ls/nginx"}}
            ],
        }
    }
}
_CORE = {
    "NodeSLO": {
        "spec": {
            "resourceQOSStrategy": {
                "policies": {"cpuPolicy": "coreSched"},
                "lsClass": {"cpuQOS": {"enable": True}},
                "beClass": {"cpuQOS": {"enable": True, "schedIdle": 1}},
            }
        }
    }
}
_POOLS = {
    "NodeResourceTopology": {
        "metadata": {
            "annotations": {
                cpuset.ANNOTATION_SHARE_POOLS: json.dumps(
                    [{"socket": 0, "node": 0, "cpuset": "0-1"}, {"socket": 0, "node": 1, "cpuset": "2-3"}]
                )
            }
        }
    }
}
_NETWORK = {
    "NodeSLO": {
        "spec": {
            "resourceQOSStrategy": {
                "policies": {"netQOSPolicy": "tc"},
                "lsClass": {"networkQOS": {"enable": True, "egressRequest": 50}},
                "beClass": {"networkQOS": {"enable": True, "egressRequest": 10}},
            },
            "systemStrategy": {"totalNetworkBandwidth": "1G"},
        }
    }
}
_TERWAY = {
    "NodeSLO": {
        "spec": {
            "resourceQOSStrategy": {
                "policies": {"netQOSPolicy": "terway-qos"},
                "beClass": {"networkQOS": {"enable": True, "egressRequest": 10}},
            },
            "systemStrategy": {"totalNetworkBandwidth": "1G"},
        }
    }
}
_FAST = {"Node": {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "2"}}}}
_OWN_CPUS = {cpuset.ANNOTATION_STATUS: json.dumps({"cpuset": "1"})}
_BATCH = {
    batch_resource.ANNOTATION_EXTENDED: json.dumps(
        {
            "containers": {
                MAIN: {
                    "requests": {n.BATCH_CPU: "500", n.BATCH_MEMORY: "64Mi"},
                    "limits": {n.BATCH_CPU: "500", n.BATCH_MEMORY: "64Mi"},
                }
            }
        }
    )
}
_SHARE = {
    "gpu": [
        {
            "minor": 1,
            "resources": {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory": "8Gi",
                "koordinator.sh/gpu-memory-ratio": "50",
            },
        }
    ],
    "rdma": [{"minor": 0, "id": "0000:01:00.0"}],
}
_DEVICES = {n.ANNOTATION_DEVICES: json.dumps(_SHARE)}
_BANDWIDTH = {resctrl.ANNOTATION_RESCTRL: json.dumps({"mb": {"schemata": {"percent": 25}}})}
_MIB = 1 << 20
_LIBRARY = "/usr/local/vgpu/libvgpu.so"

CASES = (
    Case(
        "GroupIdentity", "batch", Pod(n.BE, paths.BEST_EFFORT),
        (
            Effect("pod", "cpu.bvt", "-1"),
            Effect("BestEffort", "cpu.bvt", "-1", _ALONE),
            Effect("Burstable", "cpu.bvt", "2", _ALONE),
            Effect("Guaranteed", "cpu.bvt", "0", _ALONE),
            Effect("host application", "cpu.bvt", "2", _ALONE),
        ),
        _SLO,
    ),
    Case(
        "CPUSetAllocator", "own CPUs", Pod(n.LSR, paths.GUARANTEED, annotations=_OWN_CPUS, cfs_quota=100_000),
        (
            Effect("container", "cpuset.cpus", "1", updated=True),
            Effect("container", "cpu.cfs_quota", "-1", updated=True),
            Effect("pod", "cpu.cfs_quota", "-1"),
            Effect("sandbox", "cpuset.cpus", "1", _ALONE),
        ),
        _POOLS,
    ),
    Case(
        "CPUSetAllocator", "share pools", Pod(n.LS),
        (
            Effect("container", "cpuset.cpus", "0-1,2-3", updated=True),
            Effect("sandbox", "cpuset.cpus", "0-1,2-3", _ALONE),
        ),
        _POOLS,
    ),
    Case(
        "CPUSetAllocator", "clear", Pod(n.BE, paths.BEST_EFFORT),
        (Effect("container", "cpuset.cpus", "", _CREATION, updated=True),),
        _POOLS,
    ),
    Case(
        "GPUEnvInject", "share", Pod(labels={gpu.LABEL_GPU_ISOLATION: "HAMi-core"}, annotations=_DEVICES),
        (
            Effect("container", "env NVIDIA_VISIBLE_DEVICES", "1", _CREATION),
            Effect("container", "env LD_PRELOAD", _LIBRARY, _CREATION),
            Effect("container", f"mount {_LIBRARY}", _LIBRARY, _CREATION),
        ),
    ),
    Case(
        "RDMADeviceInject", "function", Pod(annotations=_DEVICES),
        (
            Effect("container", "device /dev/infiniband/rdma_cm", "c 231:192", _CREATION),
            Effect("container", "device /dev/infiniband/uverbs0", "c 231:192", _CREATION),
        ),
    ),
    Case(
        "BatchResource", "limits", Pod(n.BE, paths.BEST_EFFORT, annotations=_BATCH),
        (
            Effect("pod", "cpu.shares", "512"),
            Effect("pod", "cpu.cfs_quota", "50000"),
            Effect("pod", "memory.limit", str(64 * _MIB)),
            Effect("container", "cpu.shares", "512", updated=True),
            Effect("container", "cpu.cfs_quota", "50000", updated=True),
            Effect("container", "memory.limit", str(64 * _MIB), updated=True),
        ),
    ),
    Case(
        "CPUNormalization", "faster CPUs", Pod(n.LS, cpu_shares=1024, cfs_quota=100_000),
        (
            Effect("container", "cpu.cfs_quota", "50000", updated=True),
            # Not on cgroup v1, where a container could then not start (nri.agent.transports.standalone.pods.with_room).
            Effect("pod", "cpu.cfs_quota", "50000", frozenset()),
        ),
        _FAST,
    ),
    Case(
        "Resctrl", "bandwidth", Pod(n.LS, annotations=_BANDWIDTH),
        (
            Effect("resctrl", "schemata", "MB:0=30"),
            Effect("container", "rdt class", f"koordlet-{UID}", frozenset({NRI})),
            Effect("resctrl", "removed", f"koordlet-{UID}"),
            Effect("resctrl", "tasks", f"koordlet-{UID}", _ALONE),
        ),
    ),
    Case(
        "CoreSched", "cookie", Pod(n.LS, labels={core_sched.LABEL_CORE_GROUP: "web"}),
        (
            Effect("container", "cookie", "web/-expeller", _ALONE),
            Effect("BestEffort", "cpu.idle", "1", _ALONE),
        ),
        _CORE,
    ),
    Case(
        "OOMScoreAdj", "score", Pod(annotations={oom_score_adj.ANNOTATION_OOM_SCORE: "500"}),
        (Effect("container", "oom score", "500"),),
    ),
    Case("TCNetworkQoS", "classes", Pod(n.LS), (Effect("node", "tc", "1:3", _ALONE),), _NETWORK),
    Case("TerwayQoS", "files", Pod(n.LS), (Effect("node", "terway", UID, _ALONE),), _TERWAY),
)  # fmt: skip
"""The table. Hook after hook, as in surrounding-systems A.4."""
#: Cases with effects that an update of the container by the kubelet brings about as well.
UPDATED = tuple(case for case in CASES if any(effect.updated for effect in case.effects))
