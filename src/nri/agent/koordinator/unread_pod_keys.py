"""Find labels, annotations and values of a pod without effect that look like Koordinator's."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from nri.agent.koordinator import batch_resource, cpuset, evict, group_identity, pod_annotations, pod_class, resctrl
from nri.agent.koordinator.batch_resource import ANNOTATION_EXTENDED
from nri.agent.koordinator.block_io import ANNOTATION_BLOCK_IO
from nri.agent.koordinator.block_io import SHAPE as _DISKS
from nri.agent.koordinator.core_sched import LABEL_CORE_POLICY
from nri.agent.koordinator.cpu_burst import ANNOTATION_BURST
from nri.agent.koordinator.cpu_burst import SHAPE as _BURST
from nri.agent.koordinator.cpuset import ANNOTATION_STATUS
from nri.agent.koordinator.memo import Memo
from nri.agent.koordinator.memory_qos import ANNOTATION_MEMORY
from nri.agent.koordinator.memory_qos import POD_SHAPE as _MEMORY
from nri.agent.koordinator.names import BATCH_CPU, BATCH_MEMORY, LABEL_QOS, qos_class
from nri.agent.koordinator.oom_score_adj import ANNOTATION_OOM_SCORES
from nri.agent.koordinator.unread_keys import below, nearly
from nri.agent.model import ExtendedResources
from nri.api.cpuset import parse as parse_cpus
from nri.config.syntax import parse_json
from nri.kube.shapes import Table, Unread
from nri.text import nearest, plain

_CLASSES: Final = ("LSE", "LSR", "LS", "BE", "SYSTEM")
_SHAPES: Final = {
    group_identity.ANNOTATION_CPU_QOS: group_identity.SHAPE,
    ANNOTATION_EXTENDED: batch_resource.SHAPE,
    resctrl.ANNOTATION_RESCTRL: resctrl.SHAPE,
    ANNOTATION_BURST: _BURST,
    ANNOTATION_MEMORY: _MEMORY,
    ANNOTATION_BLOCK_IO: _DISKS,
}
#: Labels with a fixed set of values.
_LABEL_VALUES: Final = {
    LABEL_CORE_POLICY: ("none", "exclusive"),
    pod_class.LABEL_PRIORITY_CLASS: (pod_class.PROD, pod_class.MID, pod_class.BATCH, pod_class.FREE),
    pod_class.LABEL_EVICTABLE: ("true", "false"),
}
_NUMBERS: Final = {pod_class.LABEL_PRIORITY: pod_class.INT64, pod_class.ANNOTATION_EVICTION_PRIORITY: pod_class.INT32}
_POLICY: Final = pod_class.ANNOTATION_EVICTION_POLICY
_READ_HERE: Final = frozenset({*_SHAPES, *_LABEL_VALUES, *_NUMBERS, _POLICY})
#: The resources of batch pods, and of mid pods, which scheduler and kubelet read.
_RESOURCES: Final = (BATCH_CPU, BATCH_MEMORY, "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
#: The maximum number of reported mistakes of a pod.
_MAX_LINES = 16
#: The maximum number of characters of a value in a report.
_MAX_TEXT = 200
_memo = Memo()


def pod_unread(
    hook_keys: frozenset[str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    extended: Mapping[str, ExtendedResources] | None = None,
) -> list[str]:
    """Return a line for each mistake in the labels, annotations and resources of a pod, up to `_MAX_LINES`.

    Args:
        hook_keys: the labels and annotations that hooks read.
        labels: the pod's labels.
        annotations: the pod's annotations.
        extended: the extended resources of the pod's containers, if the spec is known.
    """
    keys = _keys({**labels, **annotations}, hook_keys | _READ_HERE)
    words = _invalid_values(labels, annotations)
    lines = itertools.chain(
        _classes(labels, annotations), keys, words, _unread_json_keys(annotations), _unread_resources(extended or {})
    )
    return list(itertools.islice(lines, _MAX_LINES))


def absent_containers(annotations: Mapping[str, str], containers: Collection[str]) -> list[str]:
    """Return a line for each annotation (batch resources, OOM scores) that names a container which the pod lacks.

    An annotation of batch resources without containers also has a line.
    """
    resources_by_container = batch_resource.annotated(annotations)
    named: dict[str, Iterable[str]] = {ANNOTATION_EXTENDED: resources_by_container or ()}
    with suppress(ValueError):
        named[ANNOTATION_OOM_SCORES] = pod_annotations.read(annotations, ANNOTATION_OOM_SCORES, Table(int)) or {}
    lines = [f"annotation {ANNOTATION_EXTENDED}: no container is named"] if resources_by_container == {} else []
    existing, has = frozenset(containers), f"; it has {', '.join(containers)}"
    absent = {key: [name for name in names if name not in existing] for key, names in named.items()}
    return lines + [
        f"annotation {key}: the pod has no container {plain(', '.join(names), _MAX_TEXT)}{has}"
        for key, names in absent.items()
        if names
    ]


def _classes(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    label = labels.get(LABEL_QOS, "")
    if label and not qos_class(labels):
        shown = plain(label, _MAX_TEXT)
        yield f'{LABEL_QOS}: "{shown}" is not a class, so the pod has no class; choose from {", ".join(_CLASSES)}'
    if LABEL_QOS in annotations and LABEL_QOS not in labels:
        yield f"{LABEL_QOS}: without effect as an annotation; set it as a label"


def _invalid_values(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each invalid value of a label, a number, a list of features or a CPU set."""
    for key, words in _LABEL_VALUES.items():
        if (value := _text(labels, key)) and value not in words:
            yield str(Unread.of_word(key, value, words))
    for key, bound in _NUMBERS.items():
        value = _text(annotations if key == pod_class.ANNOTATION_EVICTION_PRIORITY else labels, key)
        if value and pod_class.whole_number(value, bound) is None:
            bits = bound.bit_length()
            yield f'{key}: "{plain(value, _MAX_TEXT)}" is not a {bits}-bit whole number, so it is ignored'
    if text := _text(annotations, _POLICY):
        yield from _memo.get(_POLICY, text, _features)
    with suppress(ValueError):
        cpus = cpuset.own_cpuset({ANNOTATION_STATUS: _text(annotations, ANNOTATION_STATUS) or "{}"})
        try:
            parse_cpus(cpus)
        except ValueError as error:
            yield f"annotation {ANNOTATION_STATUS}: cpuset: {error}"


def _text(annotations: Mapping[str, str], key: str) -> str:
    """Return a value, or "" if it is absent or not a string."""
    value = annotations.get(key)
    return value if isinstance(value, str) else ""


def _features(text: str) -> list[str]:
    """Return a line for each unknown name in the annotation of features that may evict a pod."""
    try:
        named = parse_json(text)
    except ValueError:
        named = None
    if not isinstance(named, list):
        return [f"annotation {_POLICY}: not a list of features, so no feature evicts the pod"]
    features = tuple(feature.name for feature in evict.FEATURES)
    wrong = (name for name in named if name not in features)
    complaints = (Unread.of_word(f"annotation {_POLICY}", str(name), features) for name in wrong)
    return [str(complaint) for complaint, _ in zip(complaints, range(_MAX_LINES), strict=False)]


def _keys(annotations: Mapping[str, str], known_keys: frozenset[str]) -> Iterator[str]:
    for key in annotations:
        suggestion = nearly(key, known_keys)
        if suggestion and suggestion not in annotations:
            yield str(Unread.of(key, suggestion))


def _unread_json_keys(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each unread key in the JSON of annotations. Hooks report malformed annotations."""
    for key, shape in _SHAPES.items():
        text = annotations.get(key)
        if text:
            yield from _memo.get(key, text, lambda text, key=key, shape=shape: _lines(key, text, shape))  # type: ignore[misc]


def _lines(key: str, text: str, shape: Any) -> list[str]:
    try:
        value = parse_json(text)
    except ValueError:
        return []
    unread_keys = [*below(value, shape, "")]
    if key == ANNOTATION_EXTENDED:
        containers = value.get("containers") if isinstance(value, dict) else None
        unread_keys += _resources(containers if isinstance(containers, dict) else {})
    return [f"annotation {key}: {unread}" for unread in unread_keys[:_MAX_LINES]]


def _unread_resources(extended: Mapping[str, ExtendedResources]) -> Iterator[str]:
    parts = {name: {"requests": resources.requests, "limits": resources.limits} for name, resources in extended.items()}
    yield from map(str, _resources(parts, everything=False))


def _resources(containers: Mapping[str, Any], *, everything: bool = True) -> Iterable[Unread]:
    """Yield the names of unread resources: all unknown names, or only names similar to valid ones."""
    for container, parts in containers.items():
        for part in ("requests", "limits") if isinstance(parts, dict) else ():
            amounts = parts.get(part)
            for name in amounts if isinstance(amounts, Mapping) else ():
                suggestion = "" if name in _RESOURCES else nearest(str(name), _RESOURCES, may_be_foreign=True)
                if suggestion or (everything and name not in _RESOURCES):
                    yield Unread.of(f"containers.{container}.{part}.{name}", suggestion)
