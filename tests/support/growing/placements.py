"""Annotations and configurations of placement of any length."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nri.placement.containers import NoPlace
from nri.placement.hints import sources_of
from nri.placement.ignored_keys import ignored_annotations, ignored_keys
from tests.support.growing.big import Case, names
from tests.support.placement import balloons, container, topology_aware

_SUFFIX = ".resource-policy.nri.io"


def annotated(annotations: dict[str, str]) -> Callable[[], object]:
    """A container with these annotations on a node with twenty others: its creation, end and warnings."""
    policy = topology_aware()
    for number in range(20):
        policy.create(container(f"other{number}", 100, qos="Burstable"))

    def create() -> None:
        one = container("c", 2000)
        one.pod = replace(one.pod, annotations=annotations)
        sources = sources_of(one)
        for number in range(100):
            sources.counts(f"/data/{number}")
        with suppress(NoPlace):
            policy.create(one)
        policy.release("c")
        ignored_annotations(one, policy.annotations, policy.ignored_annotations)

    return create


def _annotation(key: str, value: Callable[[int], Any]) -> Case:
    def case(n: int) -> Callable[[], object]:
        content = value(n)
        return annotated({key: content if isinstance(content, str) else json.dumps(content)})

    return case


def _full_affinity(**match: Any) -> dict[str, Any]:
    return {"scope": {"operator": "AlwaysTrue"}, "match": match}


def unknown_annotations(n: int) -> Callable[[], object]:
    """Annotations that look like known ones."""
    return annotated({f"prefer-share-{name}{_SUFFIX}": "x" for name in names("cpus", n)})


def _balloons(spec: Callable[[int], dict[str, Any]]) -> Case:
    def case(n: int) -> Callable[[], object]:
        content = spec(n)

        def load() -> None:
            policy = balloons(*content.get("types", ()), **{key: content[key] for key in content.keys() - {"types"}})
            list(ignored_keys(policy.options, 16))
            policy.create(container("c", 1000))

        return load

    return case


_AFFINITY = "resource-policy.nri.io/affinity"
CASES: dict[str, Case] = {
    "placement: unknown annotations": unknown_annotations,
    "placement: topologyhints": _annotation(f"topologyhints{_SUFFIX}", lambda n: ",".join(names("word", n))),
    "placement: allowed paths": _annotation(
        f"allow.topologyhints{_SUFFIX}", lambda n: {"type": "prefix", "paths": names("/x", n)}
    ),
    "placement: denied patterns": _annotation(
        f"deny.topologyhints{_SUFFIX}", lambda n: {"type": "glob", "paths": names("/x*", n)}
    ),
    "placement: cold-start": _annotation(f"cold-start{_SUFFIX}", lambda n: dict.fromkeys(names("k", n), 1)),
    "placement: interrupts": _annotation(f"irq-affinity{_SUFFIX}", lambda n: {"claim": names("*k", n)}),
    "placement: kinds of memory": _annotation(f"memory-type{_SUFFIX}", lambda n: ",".join(["dram"] * n)),
    "placement: mutual affinity": _annotation(_AFFINITY, lambda n: {"c": names("k", n)}),
    "placement: mutual affinities": _annotation(_AFFINITY, lambda n: {name: ["c"] for name in names("k", n)}),
    "placement: affinities": _annotation(
        _AFFINITY, lambda n: {name: [_full_affinity(operator="AlwaysTrue")] for name in names("k", n)}
    ),
    "placement: values of an affinity": _annotation(
        _AFFINITY, lambda n: {"c": [_full_affinity(key="name", operator="MatchesAny", values=names("*k", n))]}
    ),
    "placement: keys of an affinity": _annotation(
        _AFFINITY, lambda n: {"c": [_full_affinity(key=":,-" + ",".join(["name"] * n), operator="Exists")]}
    ),
    "placement: types of balloons": _balloons(lambda n: {"types": [{"name": name} for name in names("t", n)]}),
    "placement: undefined classes": _balloons(
        lambda n: {"types": [{"name": name, "cpuClass": name} for name in names("t", n)]}
    ),
    "placement: classes of CPUs": _balloons(lambda n: {"cpuClasses": [{"name": name} for name in names("t", n)]}),
    "placement: older classes of CPUs": _balloons(
        lambda n: {"control": {"cpu": {"classes": {name: {} for name in names("t", n)}}}}
    ),
    "placement: scheduling classes": _balloons(
        lambda n: {"schedulingClasses": [{"name": name} for name in names("t", n)]}
    ),
    "placement: a list of CPUs": _balloons(
        lambda n: {"availableResources": {"cpu": "cpuset:" + ",".join(str(number % 16) for number in range(n))}}
    ),
    "placement: components": _balloons(
        lambda n: {"types": [{"name": "part"}, {"name": "whole", "components": [{"balloonType": "part"}] * n}]}
    ),
}
