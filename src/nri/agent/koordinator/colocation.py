"""The colocation strategy of Koordinator's manager, and its valid numbers.

The manager computes batch and mid resources from the strategy. The agent reads the computed resources from Node. It
reads the strategy only to report values of a node that the manager ignores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nri.agent.koordinator.documents import over
from nri.config.syntax import parse_json
from nri.kube.shapes import Unread
from nri.text import plain

#: A valid value of a label, and the name in its key.
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN_PART: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_DOMAIN: Final = 253

ANNOTATION_STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
#: Labels of nodes: each is a ratio that replaces this percentage of the strategy.
RATIOS: Final[Mapping[str, str]] = {
    "node.koordinator.sh/cpu-reclaim-ratio": "cpuReclaimThresholdPercent",
    "node.koordinator.sh/memory-reclaim-ratio": "memoryReclaimThresholdPercent",
    "node.koordinator.sh/mid-static-cpu-reserved-ratio": "midStaticCPUReservedPercent",
    "node.koordinator.sh/mid-static-memory-reserved-ratio": "midStaticMemoryReservedPercent",
}
#: The strategy without any configured value.
DEFAULTS: Final[Mapping[str, Any]] = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60,
    "cpuCalculatePolicy": "usage",
    "memoryReclaimThresholdPercent": 65,
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0,
    "midStaticCPUReservedPercent": 0,
    "midStaticMemoryReservedPercent": 0,
}
_POSITIVE: Final = (
    "metricAggregateDurationSeconds", "metricReportIntervalSeconds", "degradeTimeMinutes",
    "updateTimeThresholdSeconds", "resourceDiffThreshold",
)  # fmt: skip
_UP_TO_100: Final = ("midCPUThresholdPercent", "midMemoryThresholdPercent", "midUnallocatedPercent")
_AT_LEAST_0: Final = (*RATIOS.values(), "batchCPUThresholdPercent", "batchMemoryThresholdPercent", *_UP_TO_100)


def wrong(strategy: Mapping[str, Any]) -> list[str]:
    """Return a line for each number of a strategy that the manager refuses."""
    numbers = {key: value for key, value in strategy.items() if isinstance(value, (int, float))}
    problems = [f"{key} {numbers[key]} is not above 0" for key in _POSITIVE if numbers.get(key, 1) <= 0]
    problems += [f"{key} {numbers[key]} is below 0" for key in _AT_LEAST_0 if numbers.get(key, 0) < 0]
    problems += [f"{key} {numbers[key]} is above 100" for key in _UP_TO_100 if numbers.get(key, 0) > 100]
    return problems + ["metricMemoryCollectPolicy is empty"] * (strategy.get("metricMemoryCollectPolicy") == "")


def of_node(config: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's strategy: the cluster's, the first matching node configuration and the annotation, merged.

    Args:
        config: the JSON of the ConfigMap's key `colocation-config`.
        node: the Node with labels and annotations; unreadable values are ignored.
    """
    labels = node_texts(node, "labels")
    strategy = {key: value for key, value in config.items() if key != "nodeConfigs"}
    for node_config in config.get("nodeConfigs") or ():
        if is_selected(node_config.get("nodeSelector"), labels):
            strategy = over(
                strategy, {key: value for key, value in node_config.items() if key not in ("name", "nodeSelector")}
            )
            break
    strategy = over(strategy, _node_strategy(node) or {})
    ratios = {key: _percent(labels[label]) for label, key in RATIOS.items() if label in labels}
    return over(strategy, ratios)


def left_out(node: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the labels and annotations of a node that the manager ignores or refuses."""
    for label in RATIOS:
        text = node_texts(node, "labels").get(label)
        if text is not None and _percent(text) is None:
            yield Unread(
                f"label {label}",
                f"{plain(text, 80)!r} is not a ratio such as 0.7, so Koordinator's manager ignores it",
            )
    if _node_strategy(node) is None:
        yield Unread(f"annotation {ANNOTATION_STRATEGY}", "not a JSON object, so Koordinator's manager ignores it")
    for problem in wrong(of_node({}, node)):
        yield Unread(f"annotation {ANNOTATION_STRATEGY}", f"{problem}, so Koordinator's manager refuses the strategy")


def _node_strategy(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the strategy in a node's annotation, or None if it is not a JSON object."""
    try:
        strategy = parse_json(node_texts(node, "annotations").get(ANNOTATION_STRATEGY, "{}"))
    except ValueError:
        return None
    return strategy if isinstance(strategy, dict) else None


def node_texts(node: Mapping[str, Any], part: str) -> dict[str, str]:
    """Return the labels or the annotations of a Node, without values that are not strings."""
    meta = node.get("metadata")
    entries = meta.get(part) if isinstance(meta, Mapping) else None
    if not isinstance(entries, Mapping):
        return {}
    return {key: text for key, text in entries.items() if isinstance(text, str)}


def _percent(text: str) -> int | None:
    try:
        value = float(text) * 100
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None


def is_selected(selector: Any, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches. An absent selector, or one that Kubernetes refuses, does not match."""
    if not isinstance(selector, Mapping):
        return False
    pairs = (selector.get("matchLabels") or {}).items()
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in pairs]
    return all(
        _expression_matches(expression, labels)
        for expression in (*expressions, *(selector.get("matchExpressions") or ()))
    )


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    if not (_is_label(key) and all(value == "" or _NAME.fullmatch(value) for value in values)):
        return False
    present = labels.get(key)
    verdicts = {
        "In": present in values,
        "NotIn": bool(values) and present not in values,
        "Exists": not values and present is not None,
        "DoesNotExist": not values and present is None,
    }
    return verdicts.get(expression.get("operator", ""), False)


def _is_label(key: str) -> bool:
    """Return whether a key of a label is valid: a name with or without a domain before it."""
    domain, slash, name = key.rpartition("/")
    is_domain = len(domain) <= _MAX_DOMAIN and all(map(_DOMAIN_PART.fullmatch, domain.split(".")))
    return _NAME.fullmatch(name) is not None and (not slash or is_domain)
