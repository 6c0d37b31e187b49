"""Cgroups that belong to no pod: folders of the kube-QoS classes, programs of the host, and identities left behind.

Rules: each folder and program by itself, so that one which cannot be decided costs the others nothing. A new NodeSLO
also reaches what a pod has given its containers, and folders of pods that are listed no more, where the kernel knows
identities at all. Next: :mod:`nri.agent.transports.standalone.terway`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from nri.agent.decisions import reason_of
from nri.agent.parts import Parts
from nri.agent.transports.standalone.pods import NAME
from nri.agent.transports.standalone.tally import Tally
from nri.host import Unsupported, probe, set_switch
from nri.policies.koordinator import paths
from nri.policies.koordinator.contexts import HostApplicationContext, KubeQosContext
from nri.policies.koordinator.hooks import core_sched, group_identity
from nri.policies.koordinator.hooks.host_application import context_of
from nri.policies.koordinator.names import KUBE_CLASSES
from nri.policies.koordinator.profile import FOLDER, PROGRAM
from nri.policies.koordinator.refresh.identities import identities
from nri.policies.koordinator.refresh.running import RunningPod
from nri.policies.koordinator.refresh.switches import CORE_SCHED, GROUP_IDENTITY
from nri.policies.koordinator.rules import host_applications
from nri.policies.koordinator.writes import KNOBS, folder_writes

__all__ = ["all_identities", "kube_classes", "programs", "switches"]

#: More programs of the host than that are a mistake of the NodeSLO.
_MOST_PROGRAMS: Final = 1024
#: Folders below that of all pods that are looked at, and how deep: class, pod, container.
_MOST_FOLDERS: Final = 8192
_DEEPEST: Final = 3
_log = logging.getLogger("nri.agent")


def kube_classes(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write for the three folders."""
    for kube_class in KUBE_CLASSES:
        context = KubeQosContext(kube_class, paths.kube_class_path(kube_class, parts.driver))
        _decided(parts, FOLDER, context, kube_class, tally, force)


def programs(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write for the programs that NodeSLO lists."""
    spec = (parts.book.document("NodeSLO") or {}).get("spec") or {}
    try:
        listed = host_applications.by_name(spec.get("hostApplications"))
    except (TypeError, ValueError) as error:
        tally.failed("host applications", [error])
        return
    if len(listed) > _MOST_PROGRAMS:
        parts.observer.left_out("host applications", len(listed) - _MOST_PROGRAMS)
    for name, application in list(listed.items())[:_MOST_PROGRAMS]:
        try:
            context = context_of(application, parts.driver)
            _decided(parts, PROGRAM, context, f"host application {name}", tally, force)
        except Exception as error:  # noqa: BLE001  one entry of a list must not cost the others theirs
            tally.failed(f"host application {name}", [error])
            _log.exception("a host application could not be looked at: %r", name)


def switches(parts: Parts, tally: Tally) -> None:
    """Switch the scheduler's sysctls as the rules need them; kernels without them have nothing to switch."""
    node = parts.decisions.node
    gates = node.gates
    if node.core.enabled and gates is not None and core_sched.NAME in gates:
        wanted = ((GROUP_IDENTITY, 0), (CORE_SCHED, 1))
    elif node.identity is not None and node.identity.enabled and (gates is None or group_identity.NAME in gates):
        wanted = ((CORE_SCHED, 0), (GROUP_IDENTITY, 1))
    else:
        return
    results = [set_switch(parts.root, name, value) for name, value in wanted]
    parts.observer.wrote(results)
    tally.wrote(results)


def all_identities(parts: Parts, pods: Iterable[RunningPod], tally: Tally) -> None:
    """Write the identities of all folders that have one, listed or not."""
    node = parts.decisions.node
    rule = group_identity.in_effect(
        node.identity if node.gates is None or group_identity.NAME in node.gates else None,
        not isinstance(probe(parts.executor.hierarchies, KNOBS["bvt"]), Unsupported),
        None,
    )
    if rule is not None:
        writes = identities(rule, pods, _folders(parts), parts.driver)
        tally.items += len(writes)
        tally.wrote(parts.executor.write(writes, keep=False))


def _folders(parts: Parts) -> Iterator[str]:
    """The folder of all pods and those below it."""
    level = [paths.kube_class_path("Guaranteed", parts.driver)]
    left = _MOST_FOLDERS
    for _ in range(_DEEPEST + 1):
        yield from level
        left -= len(level)
        below = (f"{each}/{name}" for each in level for name in parts.executor.hierarchies.below(each, "cpu"))
        level = [path for path, _ in zip(below, range(max(left, 0)), strict=False)]


def _decided(
    parts: Parts, stage: str, context: KubeQosContext | HostApplicationContext, what: str, tally: Tally, force: bool
) -> None:
    outcome = parts.decisions.decide(stage, context, NAME)
    tally.items += 1
    tally.failed(what, outcome.errors)
    writes = folder_writes(context.cgroup_parent, outcome.changes, reason_of(outcome))
    if writes:
        results = parts.executor.write(writes, force=force, keep=False)
        tally.wrote(results)
        parts.decisions.told(context, NAME, results)
