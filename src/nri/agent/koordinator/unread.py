"""Keys of rules without effect: that nothing reads, with the nearest that is read, that are null, or mean nothing.

Rules: pure; what is below a key that is not read is not looked at, nor a key whose value asks for nothing, as a part of
which all is off: the manager writes these for each class.
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
from nri.kube.shapes import Items, Record, Table, Unread, Word, meant
from nri.text import cut, plain

__all__ = ["below", "nearly", "unread", "unread_annotations"]

_MOST, _MOST_TEXT = 100, 200
_THRESHOLDS: Final = "resourceUsedThresholdWithBE"
#: How alike two names are that differ by a slip alone, where others have names of their own.
_ALIKE: Final = 0.88
_PARTS: Final = {"memoryQOS": memory_qos.SHAPE, "resctrlQOS": resctrl.CACHE}
_NULL: Final = "it is null, which takes away what it had: its default holds"
_A_SHARE: Final = "a percentage from 0 to 100 nor a bandwidth such as '100M'"
#: Keys that only other programs read, and why this agent does not.
_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("schedGroupIdentityEnabled", "schedIdleSaverWmark", "schedFeatures"),
        "nothing reads it, nor does koordlet: group identity and core scheduling set what they need themselves",
    ),
}


def _class(name: str, *, caches: bool = True, disks: bool = False) -> Record:
    own = {**documents.SPEC.keys["resourceQOSStrategy"].keys[name].keys, **_PARTS}
    if not caches:
        del own["resctrlQOS"]
    return Record({**own, **({"blkioQOS": block_io.SHAPE} if disks else {})})


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
    """Return the keys of a NodeSLO without effect; those of its spec are named from there."""
    found = itertools.chain(below(document, _OBJECT, ""), _beyond(document), _shares(document), _idle(document))
    return [Unread(key.removeprefix("spec."), why) for (key, why), _ in zip(found, range(_MOST), strict=False)]


def _beyond(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the numbers of classes that are out of range; the other parts are refused as a whole."""
    strategy = _table(_table(document, "spec"), "resourceQOSStrategy")
    for name in strategy:
        for part in ("cpuQOS", *_PARTS):
            values = _table(_table(strategy, name), part)
            for key, why in refused(part, values) if values.get("enable") is not False else ():
                place = f"resourceQOSStrategy.{name}.{part}.{key}"
                yield Unread(plain(place, _MOST_TEXT), f"{why}, and Koordinator's manager would refuse it")


def _shares(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the shares of the network that are neither a percentage nor a bandwidth; tc takes them for none."""
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
                told = cut(repr(value), _MOST_TEXT)
                yield Unread(f"resourceQOSStrategy.{name}.networkQOS.{key}", f"{told} is neither {_A_SHARE}")


def _share(value: int | str) -> bool:
    if isinstance(value, int):
        return 0 <= value <= 100
    try:
        return quantity.parse(value) >= 0
    except ValueError:
        return False


def _idle(document: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the thresholds of evictions that are switched on, and by whose numbers none is ever made."""
    given = _table(_table(document, "spec"), _THRESHOLDS)
    if given.get("enable") is not True:
        return
    keys = {key: value for key, value in given.items() if type(value) is int}
    for name in dict.fromkeys(each.threshold for each in evict.FEATURES if each.threshold in keys):
        reasons = [evict.idle(each, keys) for each in evict.FEATURES if each.threshold == name]
        if all(reasons):
            yield Unread(f"{_THRESHOLDS}.{name}", reasons[0])


def unread_annotations(document: Mapping[str, Any]) -> list[Unread]:
    """Return the keys without effect of the annotations of a Node or its topology: nearly ours, or in one of ours."""
    meta = document.get("metadata")
    given = meta.get("annotations") if isinstance(meta, dict) else None
    found = itertools.chain(_annotations(given), colocation.left_out(document))
    return list(itertools.islice(found, _MOST))


def nearly(key: str, known: Collection[str]) -> str:
    """Return the label or annotation that a key of Koordinator's would be but for a slip; "" if it is one, or none."""
    if key in known or "koordinator" not in key:
        return ""
    plain_names = {_plain(each): each for each in known}
    return plain_names.get(meant(_plain(key), plain_names, _ALIKE), "")


def _plain(key: str) -> str:
    """A key's name without its domain, and however it is written."""
    return key.rpartition("/")[2].casefold().replace("-", "").replace("_", "")


def _annotations(given: Any) -> Iterator[Unread]:
    for key, text in given.items() if isinstance(given, dict) else ():
        if key in cpuset.TOPOLOGY_SHAPES:
            try:
                value = parse_json(text)
            except (TypeError, ValueError):
                continue
            yield from below(value, cpuset.TOPOLOGY_SHAPES[key], f"annotation {key}: ")
        elif (near := nearly(str(key), _ANNOTATIONS)) and near not in given:
            yield Unread.of(f"annotation {key}", near)


def below(value: Any, shape: Any, place: str) -> Iterator[Unread]:
    """Yield the keys without effect of a value of a shape; `place` is put before each."""
    if isinstance(shape, Items) and isinstance(value, list):
        for number, each in enumerate(value[:_MOST]):
            yield from below(each, shape.shape, f"{place.removesuffix('.')}[{number}].")
    if isinstance(shape, Table) and isinstance(value, dict):
        for key, each in value.items():
            yield from below(each, shape.values, f"{place}{plain(str(key), _MOST_TEXT)}.")
    if isinstance(shape, Word) and isinstance(value, str) and value and value not in shape.words:
        yield Unread.of_word(place.removesuffix("."), value, shape.words)
    if not (isinstance(shape, Record) and isinstance(value, dict)):
        return
    folded = {key.casefold(): key for key in shape.keys}
    for key, each in value.items():
        known = folded.get(str(key).casefold())
        if known is None:
            yield from _passed_over(str(key), each, shape, place)
        elif each is None:
            yield Unread(f"{place}{known}", _NULL)
        else:
            yield from below(each, shape.keys[known], f"{place}{known}.")


def _passed_over(key: str, value: Any, shape: Record, place: str) -> Iterator[Unread]:
    """Yield a key that a shape does not have, if it asks for anything."""
    if key in _ELSEWHERE:
        yield Unread(f"{place}{key}", _ELSEWHERE[key])
    elif _asks(value):
        lost = not place and key in _SPEC.keys  # a part of the spec beside it
        yield Unread.of(f"{place}{key}", f"spec.{key}" if lost else meant(key, shape.keys))


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _asks(value: Any) -> bool:
    """Whether a value would ask for anything, if it were read."""
    return not isinstance(value, dict) or (value.get("enable") is not False and any(value.values()))
