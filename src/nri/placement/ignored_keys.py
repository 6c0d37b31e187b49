"""Configuration keys and annotations of nri-plugins that have no effect in this package, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from nri.config.complaint import WrongValue
from nri.placement.containers import SUFFIX, Container
from nri.text import nearest, plain

_CLASSES = "the plugin rdt sets classes of block I/O and RDT"
#: Why keys that name devices of the kubelet have no effect.
POD_RESOURCES = (
    "the kubelet's pod resources API is not used; topology-aware takes hints from devices and mounts of containers, "
    "balloons from paths in preferCloseToDevices"
)
#: Keys of both policies.
_KEYS: Final = {
    "instrumentation": "for metrics, start the plugin with --metrics HOST:PORT; for traces, with --record DIR",
    "log": "the log is set by --log-level",
}
#: Keys of `agent`.
_AGENT: Final = {
    "podResourceAPI": POD_RESOURCES,
    "nodeResourceTopology": "NodeResourceTopology objects are written by nri placement follow",
}
_DOMAIN: Final = f"{SUFFIX.removeprefix('.')}/"
#: Maximum number of warnings per event.
MAX_WARNINGS: Final = 20
#: Maximum number of unknown annotations that are compared with all known annotations; each costs 0.1 ms.
_MAX_UNKNOWN: Final = 100
_MAX_KEY_LENGTH: Final = 320
_NOTHING: Any = (None, "", False, [], {})
#: Annotations of both policies, without `SUFFIX`.
_ANNOTATIONS: Final = {
    "toptierlimit": "memory is not tiered",
    **dict.fromkeys(("rdtclass", "blockioclass"), _CLASSES),
    "pick-resources-by-hints": "hints choose the pool, and not the CPUs and memory nodes in it",
}


def ignored_keys(options: Any, cpus: int) -> Iterator[WrongValue]:
    """Keys of a policy's options that have no effect on a machine with this number of CPUs, with the reason."""
    for key, reason in _KEYS.items():
        if getattr(options, key) not in _NOTHING:
            yield ignored_key(reason, key)
    for key, value in options.agent.items():
        if value:
            yield ignored_key(_AGENT.get(key, "there is no agent"), "agent", key)
    for key in ("rdt", "blockio"):
        if getattr(options.control, key):
            yield ignored_key(_CLASSES, "control", key)
    yield from options.ignored_keys(cpus)
    for path, name in options.undefined_cpu_classes():
        yield ignored_key(f"{name!r} is not in cpuClasses; the CPUs keep their settings", *path)
    for place, cpu_class in enumerate(options.cpuClasses):
        for key, reason in cpu_class.ignored_keys():
            yield ignored_key(reason, "cpuClasses", place, key)


def ignored_key(reason: str, *path: str | int) -> WrongValue:
    """The warning about a key that has no effect."""
    return WrongValue(path, f"it has no effect: {reason}", "")


def ignored_annotations(container: Container, readable: Collection[str], ignored: Mapping[str, str]) -> list[str]:
    """Warnings about a container's annotations that are invalid, have no effect, or look misspelt.

    There are at most `MAX_WARNINGS`; the last warning states if there are more.

    Args:
        readable: the policy's annotations, without the scope at their end (`/pod` or `/container.NAME`).
        ignored: annotations of other policies, without `SUFFIX`, with the reason why they have no effect.
    """
    warnings = list(islice(_ignored_annotations(container, readable, ignored), MAX_WARNINGS + 1))
    if len(warnings) > MAX_WARNINGS:
        warnings[MAX_WARNINGS - 1 :] = ["there are more annotations like these"]
    return warnings


def _ignored_annotations(container: Container, readable: Collection[str], ignored: Mapping[str, str]) -> Iterator[str]:
    for doubt in container.doubts:
        yield f"{doubt}; the annotation is ignored"
    for key, reason in {**_ANNOTATIONS, **ignored}.items() if container.pod.annotations else ():
        if container.scoped_annotation(key) is not None:
            yield f"annotation {key + SUFFIX} has no effect: {reason}"
    bases = ((key, key if key.startswith(_DOMAIN) else key.partition("/")[0]) for key in container.pod.annotations)
    unknown = ((key, base) for key, base in bases if _DOMAIN in f"{base}/" and base not in readable)
    for key, base in islice(unknown, _MAX_UNKNOWN):
        if len(base) <= _MAX_KEY_LENGTH and (suggestion := nearest(base, readable, may_be_foreign=True)):
            yield f"annotation {plain(key, _MAX_KEY_LENGTH)} is not read; did you mean {suggestion}?"
