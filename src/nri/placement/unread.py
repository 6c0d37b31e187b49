"""Keys of nri-plugins' configuration and annotations that have no effect here, each with the reason.

One job: tell it, for the plugins' log and for what is tried on paper; a key as the error of a value, so that whoever
knows the file tells its line. Pure. Next: the options of the policies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from nri.config.complaint import WrongValue
from nri.config.place import Path
from nri.placement.containers import SUFFIX, Container, Pod
from nri.placement.expressions import expand
from nri.text import plain

__all__ = ["MAX_WARNINGS", "OF_POLICY", "unread_annotations", "unread_keys"]

_CLASSES = "classes of block I/O and RDT are set by the plugin rdt"
_HINTS = "the kubelet's pod resources are not asked"
#: Keys of both policies.
_KEYS: Final = {
    "instrumentation": "metrics are served at --metrics HOST:PORT",
    "log": "the log is set by --log-level",
}
#: The same for keys of `agent`.
_AGENT: Final = {"podResourceAPI": _HINTS, "nodeResourceTopology": "nri placement follow writes it, beside the plugin"}
_DOMAIN: Final = f"{SUFFIX.removeprefix('.')}/"
#: Warnings of one event.
MAX_WARNINGS: Final = 20
#: Unknown annotations that are compared with all known ones, which costs a tenth of a millisecond each.
_MAX_UNKNOWN: Final = 100
_MAX_KEY_LENGTH: Final = 320
_NOTHING: Any = (None, "", False, [], {})
#: Annotations of both policies, without their domain.
_ANNOTATIONS: Final = {
    "toptierlimit": "memory is not tiered",
    **dict.fromkeys(("rdtclass", "blockioclass"), _CLASSES),
    "pick-resources-by-hints": "hints choose the pool, and not the CPUs and memory nodes in it",
}
OF_POLICY: Final[Mapping[str, Mapping[str, str]]] = {
    "topology-aware": {},
    "balloons": {
        **dict.fromkeys(
            ("topologyhints", "allow.topologyhints", "deny.topologyhints", "strict.topologyhints"),
            "preferCloseToDevices of a type says what its balloons are near to",
        ),
        "cold-start": "memory of all kinds is given at once",
        "cpu-class": "cpuClass of a type says how its CPUs are set",
        "irq-affinity": "irqClaim and irqMode of a type say which interrupts come to its balloons",
    },
}
"""Annotations of the other policy that have no effect in this one."""


def unread_keys(options: Any, cpus: int) -> Iterator[WrongValue]:
    """Keys of the configuration that are given, and have no effect on a machine of so many CPUs, with the reason."""
    for key, reason in _KEYS.items():
        if getattr(options, key) not in _NOTHING:
            yield _unread(reason, key)
    for key, value in options.agent.items():
        if value:
            yield _unread(_AGENT.get(key, "there is no agent beside the plugin"), "agent", key)
    for key in ("rdt", "blockio"):
        if getattr(options.control, key):
            yield _unread(_CLASSES, "control", key)
    yield from _unread_cpu_classes(options)
    for place, each in enumerate(getattr(options, "balloonTypes", ())):
        yield from _unread_of_type(each, ("balloonTypes", place), cpus)


def _unread_cpu_classes(options: Any) -> Iterator[WrongValue]:
    if hasattr(options, "balloonTypes"):
        for name in options.control.overridden_classes(options.cpuClasses):
            yield _unread(f"cpuClasses has a class {name}, too", "control", "cpu", "classes", name)
    elif options.control.cpu.classes:
        yield _unread("classes of CPUs are read from cpuClasses", "control", "cpu")
    for path, name in options.undefined_cpu_classes():
        yield _unread(f"{name!r} is not in cpuClasses; these CPUs stay as they are", *path)
    for place, each in enumerate(options.cpuClasses):
        for key, reason in each.without_effect():
            yield _unread(reason, "cpuClasses", place, key)


def _unread_of_type(kind: Any, path: Path, cpus: int) -> Iterator[WrongValue]:
    try:
        expand(kind.groupBy, Container("", "", Pod("", "")), None)
    except ValueError as error:
        yield _unread(str(error), *path, "groupBy")
    if kind.minCPUs > cpus:
        reason = f"{kind.minCPUs} is above the {cpus} CPUs that there are: no balloon {kind.name} can be made"
        yield WrongValue((*path, "minCPUs"), reason, "lower it")
    for number, device in enumerate(kind.preferCloseToDevices):
        if device.startswith("podresourceapi:"):
            yield _unread(_HINTS, *path, "preferCloseToDevices", number)


def _unread(reason: str, *path: str | int) -> WrongValue:
    return WrongValue(path, f"it has no effect: {reason}", "")


def unread_annotations(policy: str, container: Container, known: Collection[str]) -> list[str]:
    """Annotations of a container that could not be read, have no effect in a policy, or look misspelt, in words.

    There are at most `MAX_WARNINGS`; the last one says if there are more. `known` are the policy's annotations, without
    their scope.
    """
    warnings = list(islice(_unread_annotations(policy, container, known), MAX_WARNINGS + 1))
    if len(warnings) > MAX_WARNINGS:
        warnings[MAX_WARNINGS - 1 :] = ["there are more annotations like these"]
    return warnings


def _unread_annotations(policy: str, container: Container, known: Collection[str]) -> Iterator[str]:
    for doubt in container.doubts:
        yield f"{doubt}; it counts as not given"
    for key, reason in {**_ANNOTATIONS, **OF_POLICY[policy]}.items() if container.pod.annotations else ():
        if container.asks(key) is not None:
            yield f"annotation {key + SUFFIX} has no effect: {reason}"
    bases = ((key, key if key.startswith(_DOMAIN) else key.partition("/")[0]) for key in container.pod.annotations)
    unknown = ((key, base) for key, base in bases if _DOMAIN in f"{base}/" and base not in known)
    for key, base in islice(unknown, _MAX_UNKNOWN):
        if len(base) <= _MAX_KEY_LENGTH and (near := get_close_matches(base, known, 1, 0.9)):
            yield f"annotation {plain(key, _MAX_KEY_LENGTH)} is not read; did you mean {near[0]}?"
