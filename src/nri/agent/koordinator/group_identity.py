"""The hook GroupIdentity: the identity (`cpu.bvt_warp_ns`) by which Anolis' kernel prefers latency-sensitive pods.

The value comes from NodeSLO; for LS pods the annotation `koordinator.sh/cpuQOS` overrides it. Identities exclude core
scheduling. On a kernel without the file the writer substitutes another knob or reports it as unsupported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED, KUBE_CLASSES, kube_class_of
from nri.agent.hooks import FOLDER, PROGRAM, RUN_POD, Decide, Hook
from nri.agent.koordinator.documents import SLO, cpu_of, read_spec
from nri.agent.koordinator.names import BE, LABEL_QOS, LS, LSE, LSR, qos_class
from nri.agent.koordinator.node import GroupIdentityRule
from nri.agent.koordinator.pod_annotations import read
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import BVT, Changes, Decision, HookError, HostApplication, KubeQosFolder, Pod, Write
from nri.agent.ownership import Level, OwnedKnob
from nri.kube.shapes import Record

NAME: Final = "GroupIdentity"
ANNOTATION_CPU_QOS: Final = "koordinator.sh/cpuQOS"
SHAPE = Record({"enable": bool, "groupIdentity": int, "schedIdle": int, "coreExpeller": bool})
#: The identities that the kernel accepts.
_KERNEL_IDENTITIES = range(-1, 3)
_DEFAULTS = {"lsrClass": 2, "lsClass": 2, "beClass": -1}


def rule_of(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> GroupIdentityRule:
    """Return the identities. Guaranteed pods without a class have LSR's identity, or LS's if LSR is off."""
    strategy = read_spec(spec).get("resourceQOSStrategy", {})
    chosen = strategy.get("policies", {}).get("cpuPolicy", "") in ("", "groupIdentity")
    on, value = {}, {}
    for name, default in _DEFAULTS.items():
        cpu = cpu_of(strategy, name, quirks)
        on[name] = chosen and cpu.get("enable", False)
        value[name] = cpu.get("groupIdentity", default) if on[name] else 0
    lsr, ls, be = value["lsrClass"], value["lsClass"], value["beClass"]
    return GroupIdentityRule(
        enabled=any(on.values()),
        pods={LSE: lsr, LSR: lsr, LS: ls, BE: be},
        folders={GUARANTEED: 0, BURSTABLE: ls, BEST_EFFORT: be},
        kube_pods={GUARANTEED: lsr if on["lsrClass"] else ls, BURSTABLE: ls, BEST_EFFORT: be},
    )


def cpu_qos(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the group identity in a pod's annotation, or None without it. Raises ValueError if it is malformed."""
    config: dict[str, Any] | None = read(annotations, ANNOTATION_CPU_QOS, SHAPE)
    identity = (config or {}).get("groupIdentity", 0)
    if identity not in _KERNEL_IDENTITIES:
        raise ValueError(f"annotation {ANNOTATION_CPU_QOS}: groupIdentity {identity} is not between -1 and 2")
    return config


def in_effect(rule: GroupIdentityRule | None, supported: bool, sysctl: bool | None) -> GroupIdentityRule | None:
    """Return the rule if it has an effect on this kernel, or else None.

    Args:
        rule: the rule of NodeSLO; None before NodeSLO was read.
        supported: whether the kernel has the cgroup file or the sysctl.
        sysctl: whether the sysctl is on; None if the kernel has no sysctl and identities are always on.
    """
    if not supported or rule is None or not (rule.enabled or sysctl is None or sysctl):
        return None
    return rule


def pod(context: Pod, rule: GroupIdentityRule) -> Decision:
    """Decide a pod's identity. The annotation applies only to LS. Raises HookError if it is unreadable."""
    try:
        config = cpu_qos(context.annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    qos = qos_class(context.labels)
    if config is not None and qos == LS:
        if not config.get("enable", False):
            return Decision(Changes({"cpu.bvt": 0}), "the pod's annotation switches the identity off")
        if "groupIdentity" in config:
            return Decision(Changes({"cpu.bvt": config["groupIdentity"]}), "the identity in the pod's annotation")
    kube = kube_class_of(context.folder)
    return Decision(Changes({"cpu.bvt": rule.of_pod(qos, kube)}), f"NodeSLO, for {qos or kube} pods")


def kube_class(context: KubeQosFolder, rule: GroupIdentityRule) -> Decision:
    """Decide the identity of a Kubernetes QoS class."""
    return Decision(
        Changes({"cpu.bvt": rule.folders.get(context.kube_class, 0)}), f"NodeSLO, for the {context.kube_class} folder"
    )


def host_application(context: HostApplication, rule: GroupIdentityRule) -> Decision:
    """Decide the identity of a host application from its class."""
    return Decision(
        Changes({"cpu.bvt": rule.pods.get(context.qos, 0)}), f"NodeSLO, for {context.qos or 'classless'} programs"
    )


def folder_identities(rule: GroupIdentityRule, driver: str = paths.SYSTEMD) -> list[Write]:
    """Return the writes of the identities of Kubernetes QoS classes."""
    return [
        Write(
            paths.kube_class_path(kube_qos_class, driver),
            BVT,
            str(rule.folders.get(kube_qos_class, 0)),
            f"NodeSLO, {kube_qos_class} folder",
        )
        for kube_qos_class in KUBE_CLASSES
    ]


def identities(
    rule: GroupIdentityRule, pods: Iterable[Pod], existing: Iterable[str], driver: str = paths.SYSTEMD
) -> list[Write]:
    """Return the writes of all identities.

    Args:
        rule: the rule of NodeSLO.
        pods: the listed pods.
        existing: all cgroups with the knob.
        driver: the kubelet's cgroup driver.
    """
    existing_folders = sorted({folder.strip("/") for folder in existing})
    writes = folder_identities(rule, driver)
    classes = {
        paths.kube_class_path(kube_qos_class, driver): rule.folders.get(kube_qos_class, 0)
        for kube_qos_class in KUBE_CLASSES
    }
    dangling = {
        child: value
        for parent, value in classes.items()
        for child in _children(parent, existing_folders)
        if child not in classes
    }
    for pod in pods:
        value = rule.of_pod(qos_class(pod.labels), pod.kube_class)
        folder = pod.folder.strip("/")
        dangling.pop(folder, None)
        writes += _with_containers(folder, value, existing_folders, "NodeSLO, for the pod's class")
    for folder, value in dangling.items():
        writes += _with_containers(folder, value, existing_folders, "NodeSLO, for a cgroup without a listed pod")
    return writes


def _with_containers(folder: str, value: int, folders: list[str], reason: str) -> list[Write]:
    return [Write(path, BVT, str(value), reason) for path in (folder, *_children(folder, folders))]


def _children(folder: str, folders: list[str]) -> list[str]:
    return [path for path in folders if path.rpartition("/")[0] == folder]


def _with_rule(decide: Callable[[Any, GroupIdentityRule], Decision]) -> Decide:
    """Return a stage function that makes no decision while there is no rule."""
    return lambda context, node: Decision() if node.identity is None else decide(context, node.identity)


HOOK: Final = Hook(
    NAME,
    True,
    (SLO,),
    (LABEL_QOS, ANNOTATION_CPU_QOS),
    {RUN_POD: _with_rule(pod), FOLDER: _with_rule(kube_class), PROGRAM: _with_rule(host_application)},
    tuple(OwnedKnob(level, "cpu.bvt") for level in (Level.KUBE_QOS, Level.POD, Level.HOST_APPLICATION)),
    document_keys=((SLO, "resourceQOSStrategy.{}.cpuQOS"),),
)
