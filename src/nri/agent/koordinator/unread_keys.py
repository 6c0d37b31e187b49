"""Find keys of rules without effect: unknown keys, null values, and values without meaning.

A section that is switched off is not searched, because the manager writes such sections for every class.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from nri.agent.koordinator import (
    block_io,
    colocation,
    cpu_burst,
    cpu_normalization,
    cpuset,
    documents,
    evict,
    host_application,
    memory_qos,
    resctrl,
    system_config,
)
from nri.agent.koordinator.documents import refused
from nri.agent.koordinator.thresholds import THRESHOLDS
from nri.config.syntax import parse_json
from nri.kube import quantity
from nri.kube.shapes import Items, Record, Table, Unread, Word
from nri.text import cut, nearest, plain

#: The maximum number of reported keys of a document.
_MAX_KEYS = 100
#: The maximum number of characters of a key or value in a report.
_MAX_TEXT = 200
_THRESHOLDS: Final = "resourceUsedThresholdWithBE"
_PARTS: Final = {"memoryQOS": memory_qos.SHAPE, "resctrlQOS": resctrl.CACHE}
_NULL: Final = "the value is null, so the default applies"
_A_SHARE: Final = "a percentage from 0 to 100 nor a bandwidth, for example '100M'"
#: Keys that this agent does not read, and the reason.
_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("schedGroupIdentityEnabled", "schedIdleSaverWmark", "schedFeatures"),
        "nothing reads it, not even koordlet: group identity and core scheduling set the sysctls that they need",
    ),
}


def _class(name: str, *, caches: bool = True, disks: bool = False) -> Record:
    keys = {**documents.SPEC.keys["resourceQOSStrategy"].keys[name].keys, **_PARTS}
    if not caches:
        del keys["resctrlQOS"]
    return Record({**keys, **({"blkioQOS": block_io.SHAPE} if disks else {})})


_SPEC: Final = Record(
    {
        **documents.SPEC.keys,
        _THRESHOLDS: THRESHOLDS,
        "systemStrategy": Record({**documents.SPEC.keys["systemStrategy"].keys, **system_config.SHAPE.keys}),
        "cpuBurstStrategy": cpu_burst.SHAPE,
        "hostApplications": host_application.SPEC,
        "resourceQOSStrategy": Record(
            {
                **documents.SPEC.keys["resourceQOSStrategy"].keys,
                "lsrClass": _class("lsrClass"),
                "lsClass": _class("lsClass"),
                "beClass": _class("beClass", disks=True),
                "systemClass": _class("systemClass", caches=False),
                "cgroupRoot": Record({"blkioQOS": block_io.ROOT_SHAPE}),
            }
        ),
    }
)
_OBJECT: Final = Record({**dict.fromkeys(("apiVersion", "kind", "metadata", "status"), dict), "spec": _SPEC})
_ANNOTATIONS: Final = (cpu_normalization.ANNOTATION_RATIO, colocation.ANNOTATION_STRATEGY, *cpuset.TOPOLOGY_SHAPES)


def unread(document: Mapping[str, Any]) -> list[Unread]:
    """Return the keys of a NodeSLO without effect. Paths of keys in the spec start below the spec."""
    rows = itertools.chain(
        below(document, _OBJECT, ""), _numbers_out_of_range(document), _shares(document), _idle_thresholds(document)
    )
    return [Unread(key.removeprefix("spec."), why) for (key, why), _ in zip(rows, range(_MAX_KEYS), strict=False)]


def _numbers_out_of_range(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the numbers of classes that are out of range. Other sections with such numbers are refused entirely."""
    strategy = _table(_table(document, "spec"), "resourceQOSStrategy")
    for name in strategy:
        for part in ("cpuQOS", *_PARTS):
            values = _table(_table(strategy, name), part)
            for key, why in refused(part, values) if values.get("enable") is not False else ():
                place = f"resourceQOSStrategy.{name}.{part}.{key}"
                yield Unread(plain(place, _MAX_TEXT), f"{why}, and Koordinator's manager would refuse it")


def _shares(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the network shares that tc ignores, because they are neither a percentage nor a bandwidth."""
    strategy = _table(_table(document, "spec"), "resourceQOSStrategy")
    if _table(strategy, "policies").get("netQOSPolicy", "tc") != "tc":
        return
    for name in ("lsClass", "beClass"):
        for key, value in _table(_table(strategy, name), "networkQOS").items():
            if (
                key in documents.NETWORK.keys
                and key != "enable"
                and isinstance(value, (int, str))
                and not _share(value)
            ):
                shown = cut(repr(value), _MAX_TEXT)
                yield Unread(f"resourceQOSStrategy.{name}.networkQOS.{key}", f"{shown} is neither {_A_SHARE}")


def _share(value: int | str) -> bool:
    if isinstance(value, int):
        return 0 <= value <= 100
    try:
        return quantity.parse(value) >= 0
    except ValueError:
        return False


def _idle_thresholds(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield thresholds of enabled evictions with which no eviction can start."""
    thresholds = _table(_table(document, "spec"), _THRESHOLDS)
    if thresholds.get("enable") is not True:
        return
    keys = {key: value for key, value in thresholds.items() if type(value) is int}
    for name in dict.fromkeys(feature.threshold for feature in evict.FEATURES if feature.threshold in keys):
        reasons = [evict.idle(feature, keys) for feature in evict.FEATURES if feature.threshold == name]
        if all(reasons):
            yield Unread(f"{_THRESHOLDS}.{name}", reasons[0])


def unread_annotations(document: Mapping[str, Any]) -> list[Unread]:
    """Return the annotations of a Node or its topology without effect: misspelt ones, and unknown keys in them."""
    meta = document.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    rows = itertools.chain(_annotations(annotations), colocation.left_out(document))
    return list(itertools.islice(rows, _MAX_KEYS))


def nearly(key: str, known_keys: Collection[str]) -> str:
    """Return the valid label or annotation that a misspelt key resembles, or "" if the key is valid or unrelated."""
    if key in known_keys or "koordinator" not in key:
        return ""
    key_by_name = {known_key.rpartition("/")[2]: known_key for known_key in known_keys}
    return key_by_name.get(nearest(key.rpartition("/")[2], key_by_name, may_be_foreign=True), "")


def _annotations(annotations: Any) -> Iterator[Unread]:
    for key, text in annotations.items() if isinstance(annotations, dict) else ():
        if key in cpuset.TOPOLOGY_SHAPES:
            try:
                value = parse_json(text)
            except (TypeError, ValueError):
                continue
            yield from below(value, cpuset.TOPOLOGY_SHAPES[key], f"annotation {key}: ")
        elif (suggestion := nearly(str(key), _ANNOTATIONS)) and suggestion not in annotations:
            yield Unread.of(f"annotation {key}", suggestion)


def below(value: Any, shape: Any, place: str) -> Iterator[Unread]:
    """Yield the keys without effect in a value of a shape. `place` is the prefix of their paths."""
    if isinstance(shape, Items) and isinstance(value, list):
        for number, part in enumerate(value[:_MAX_KEYS]):
            yield from below(part, shape.shape, f"{place.removesuffix('.')}[{number}].")
    if isinstance(shape, Table) and isinstance(value, dict):
        for key, part in value.items():
            yield from below(part, shape.values, f"{place}{plain(str(key), _MAX_TEXT)}.")
    if isinstance(shape, Word) and isinstance(value, str) and value and value not in shape.words:
        yield Unread.of_word(place.removesuffix("."), value, shape.words)
    if not (isinstance(shape, Record) and isinstance(value, dict)):
        return
    folded = {key.casefold(): key for key in shape.keys}
    for key, part in value.items():
        known_key = folded.get(str(key).casefold())
        if known_key is None:
            yield from _passed_over(str(key), part, shape, place)
        elif part is None:
            yield Unread(f"{place}{known_key}", _NULL)
        else:
            yield from below(part, shape.keys[known_key], f"{place}{known_key}.")


def _passed_over(key: str, value: Any, shape: Record, place: str) -> Iterator[Unread]:
    """Yield a key that is not in a shape, unless its value is empty."""
    if key in _ELSEWHERE:
        yield Unread(f"{place}{key}", _ELSEWHERE[key])
    elif _requests_something(value):
        lost = not place and key in _SPEC.keys  # a section of the spec, but outside of the spec
        yield Unread.of(f"{place}{key}", f"spec.{key}" if lost else nearest(key, shape.keys))


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = value.get(key)
    return table if isinstance(table, dict) else {}


def _requests_something(value: Any) -> bool:
    """Return whether a value would request something if it were read."""
    return not isinstance(value, dict) or (value.get("enable") is not False and any(value.values()))
