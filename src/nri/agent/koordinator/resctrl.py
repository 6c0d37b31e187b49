"""Resctrl: a group of its own for a pod's share of cache and memory bandwidth, from the pod's annotation.

The pod's hook makes the group and its schemata, the container's names it as RDT class, and removal takes it away. A
range of the cache is in percent of its ways; a bandwidth is in percent, which Intel rounds up to tens and AMD counts in
eighths of a gigabit. A value that cannot be computed is left out of the schemata. Next:
`nri.agent.koordinator.schemata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.pod_annotations import read
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.schemata import Schemata, cache_mask
from nri.policies.changes import Changes, Decision, HookError, Resctrl
from nri.policies.contexts import ContainerContext, PodContext
from nri.policies.hooks import CREATE, REMOVE_POD, RUN_POD, Hook
from nri.policies.ownership import Level, Owns
from nri.policies.shapes import Items, Record

NAME: Final = "Resctrl"
INTEL, AMD = "GenuineIntel", "AuthenticAMD"
#: The beginning of the names of this agent's groups; the rest is the pod's uid.
PREFIX: Final = "koordlet-"
#: Gigabits per second of one AMD die, less a fifth that is hard to reach; and the word for no limit.
_AMD_MOST: Final = 160
_AMD_UNLIMITED: Final = 2048
ANNOTATION_RESCTRL: Final = "node.koordinator.sh/resctrl"
_SCHEMATA = {"percent": int, "range": Items(int)}
_PART = Record({"schemata": Record(_SCHEMATA), "schemataPerCache": Items(Record({"cacheID": int, **_SCHEMATA}))})
SHAPE = Record({"llc": _PART, "mb": _PART})


def pod(context: PodContext, cache: Cache) -> Decision:
    """Decide a pod's group. Raises HookError for an annotation that cannot be read."""
    try:
        wanted = shares(context.annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if wanted is None:
        return Decision()
    schemata = _schemata(wanted, cache)
    text = (schemata.l3_line() if schemata.l3_valid() else "") + (schemata.mb_line() if schemata.mb_valid() else "")
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.uid, text)), "the pod's annotation")


def container(context: ContainerContext, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a container's RDT class: the pod's group, if the annotation can be read, for else there is no group."""
    if ANNOTATION_RESCTRL not in context.pod.annotations:
        return Decision()
    if quirks.resctrl_class_needs_group:
        try:
            shares(context.pod.annotations)
        except ValueError as error:
            raise HookError(NAME, str(error)) from None
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.pod.uid)), "the group of its pod")


def removal(context: PodContext) -> Decision:
    """Take the group of a removed pod away."""
    if ANNOTATION_RESCTRL not in context.annotations:
        return Decision()
    return Decision(Changes(resctrl=Resctrl(PREFIX + context.uid, remove=True)), "its pod is removed")


def stale(groups: Iterable[str], pods: Iterable[PodContext]) -> list[str]:
    """Return the groups of this agent whose pods are gone, or no longer ask for one."""
    wanted = {PREFIX + pod.uid for pod in pods if ANNOTATION_RESCTRL in pod.annotations}
    return sorted(group for group in groups if group.startswith(PREFIX) and group not in wanted)


def bandwidth(percent: int, vendor: str) -> int:
    """Return a percentage of the memory bandwidth in the CPU's own words; 0, which is none, for an unknown vendor."""
    if vendor == INTEL:
        return percent if percent % 10 == 0 else int(percent / 10) * 10 + 10
    if vendor == AMD:
        return _AMD_UNLIMITED if percent == 100 else int(_AMD_MOST * percent / 100)
    return 0


def _schemata(wanted: Mapping[str, Any], cache: Cache) -> Schemata:
    """Compute what the annotation asks for, until a range of the cache is none."""
    schemata = Schemata(cache.ids)
    memory, llc = wanted.get("mb", {}), wanted.get("llc", {})
    percent = memory.get("schemata", {}).get("percent", 0)
    if percent:
        schemata.mb = dict.fromkeys(schemata.mb, bandwidth(percent, cache.vendor))
    for each in memory.get("schemataPerCache", []):
        schemata.mb[each.get("cacheID", 0)] = bandwidth(each.get("percent", 0), cache.vendor)
    try:
        span = llc.get("schemata", {}).get("range", [])
        if len(span) == 2:
            schemata.l3 = dict.fromkeys(schemata.l3, cache_mask(cache.mask, *span))
        for each in llc.get("schemataPerCache", []):
            if len(each.get("range", [])) == 2:
                schemata.l3[each.get("cacheID", 0)] = cache_mask(cache.mask, *each["range"])
    except ValueError:
        pass
    return schemata


def shares(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Cache and memory bandwidth of a pod: `llc` and `mb`, each `schemata` and `schemataPerCache`."""
    found: dict[str, Any] | None = read(annotations, ANNOTATION_RESCTRL, SHAPE)
    return found


def _decide_pod(context: PodContext, node: Node) -> Decision:
    return Decision() if node.cache is None else pod(context, node.cache)


def _decide_container(context: ContainerContext, node: Node) -> Decision:
    return Decision() if node.cache is None else container(context, node.quirks)


HOOK: Final = Hook(
    NAME,
    False,
    ("pods",),
    (ANNOTATION_RESCTRL,),
    {
        RUN_POD: _decide_pod,
        CREATE: _decide_container,
        REMOVE_POD: lambda context, node: Decision() if node.cache is None else removal(context),
    },
    (Owns(Level.POD, "resctrl"),),
)
