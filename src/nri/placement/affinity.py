"""Affinity of containers, as pods say it in annotations: near to some others, or far from them.

One job: :func:`affinities` of a container. Two forms, both YAML: `main: [helper]`, which is mutual and within the pod,
and a list of `{scope, match, weight}` with expressions. Rules: pure; without a scope it is the own pod; weights are at
most 1000; a mistake in either, also for another container of the pod, refuses the container. Next: `expressions`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nri.config import Source, parse_text, read
from nri.errors import ConfigError
from nri.placement.choices import Choices
from nri.placement.containers import Container
from nri.placement.expressions import Expression

__all__ = ["Affinity", "affinities"]

_KEYS = {"resource-policy.nri.io/affinity": 1, "resource-policy.nri.io/anti-affinity": -1}
_MOST_WEIGHT = 1000
_IMPLICIT_WEIGHT = 10
#: Affinities of one container: each is asked about every other container of the node.
_MOST = 100
#: Affinities of all containers of a pod, and values that one container's have in all.
_MAX_OF_POD, _MAX_VALUES = 500, 200


@dataclass(frozen=True, slots=True)
class Affinity:
    """Near to containers in a scope that match, or far from them if the weight is below 0."""

    scope: Expression
    match: Expression
    weight: int

    @classmethod
    def to_pod(cls, name: str) -> Affinity:
        """Near to the containers of pods of a name."""
        return cls(_pod(name), Expression("AlwaysTrue"), _IMPLICIT_WEIGHT)

    @classmethod
    def to_namespace(cls, namespace: str) -> Affinity:
        """Near to the containers of a namespace."""
        return cls(Expression("AlwaysTrue"), Expression("Equals", "namespace", [namespace]), _IMPLICIT_WEIGHT)

    def holds(self, other: Container) -> bool:
        """Whether another container is meant."""
        return self.scope.holds(other, other.pod) and self.match.holds(other, other.pod)


def _pod(name: str) -> Expression:
    return Expression("Equals", "pod/name", [name])


@dataclass(frozen=True)
class _Full:
    """One affinity of the full form."""

    match: Expression
    scope: Expression | None = None
    weight: int = 0


def affinities(container: Container, choices: Choices = Choices.DEFAULT) -> list[Affinity]:
    """The affinities of a container. NoPlace for a value that cannot be read."""
    found: list[Affinity] = []
    for key, sign in _KEYS.items():
        text = container.pod.annotations.get(key)
        if text is None:
            continue
        try:
            found += _read(container, key, text, sign, choices)
        except (ConfigError, ValueError) as error:
            raise container.refusal(key, error) from error
    return found


def _read(container: Container, key: str, text: str, sign: int, choices: Choices) -> list[Affinity]:
    tree = parse_text(Source(f"annotation {key}", text))
    tree = {} if tree is None else tree
    if not isinstance(tree, dict) or not all(isinstance(each, list | None) for each in tree.values()):
        raise ValueError("it is not a table of lists, by names of containers")
    tree = {name: listed or [] for name, listed in tree.items()}
    if all(isinstance(each, str) for listed in tree.values() for each in listed):
        return _mutual(container, tree, sign)
    if (number := sum(map(len, tree.values()))) > _MAX_OF_POD:
        raise ValueError(f"{number} affinities, at most {_MAX_OF_POD} of a pod are read")
    made = []
    for name, listed in tree.items():
        if len(listed) > _MOST:
            raise ValueError(f"{len(listed)} affinities of {name}, at most {_MOST} are read")
        for each in listed:
            full = read(_Full, [_source(key, each)])
            scope = full.scope or _pod(container.pod.name)
            for expression in () if choices.always_true_needs_no_key else (scope, full.match):
                expression.check_key()
            weight = max(-_MOST_WEIGHT, min(full.weight or 1, _MOST_WEIGHT)) * sign
            if name == container.name:
                made.append(Affinity(scope, full.match, weight))
    _check_values(sum(len(each.scope.values) + len(each.match.values) for each in made))
    return made


def _check_values(number: int) -> None:
    """Refuse more values than can be compared with those of every container of the node."""
    if number > _MAX_VALUES:
        raise ValueError(f"{number} values to compare with, at most {_MAX_VALUES} of a container are read")


def _source(key: str, tree: Any) -> Source:
    return Source(f"annotation {key}", json.dumps(tree), "json")


def _mutual(container: Container, tree: dict[str, list[str]], sign: int) -> list[Affinity]:
    others = set(tree.get(container.name, []))
    others.update(name for name, listed in tree.items() if container.name in listed)
    if not others:
        return []
    _check_values(len(others))
    return [Affinity(_pod(container.pod.name), Expression("In", "name", sorted(others)), sign)]
