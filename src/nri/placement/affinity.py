"""Affinity of containers: which other containers a container should be near to or far from, by its pod's annotations.

An annotation is YAML in one of two forms: `main: [helper]`, which is mutual and within the pod, or a list of
`{scope, match, weight}` with expressions.
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

#: The sign of the weight by annotation.
_KEYS = {"resource-policy.nri.io/affinity": 1, "resource-policy.nri.io/anti-affinity": -1}
_MAX_WEIGHT = 1000
_IMPLICIT_WEIGHT = 10
#: Maximum number of affinities of one container. Each affinity is compared with every other container of the node.
_MAX_PER_CONTAINER = 100
#: Maximum number of affinities of all containers of a pod.
_MAX_PER_POD = 500
#: Maximum number of values in all affinities of one container.
_MAX_VALUES = 200


@dataclass(frozen=True, slots=True)
class Affinity:
    """A request to be near the matching containers in a scope, or far from them if the weight is negative."""

    scope: Expression
    match: Expression
    weight: int

    @classmethod
    def to_pod(cls, name: str) -> Affinity:
        """Affinity to the containers of all pods with this name."""
        return cls(_pod(name), Expression("AlwaysTrue"), _IMPLICIT_WEIGHT)

    @classmethod
    def to_namespace(cls, namespace: str) -> Affinity:
        """Affinity to the containers of a namespace."""
        return cls(Expression("AlwaysTrue"), Expression("Equals", "namespace", [namespace]), _IMPLICIT_WEIGHT)

    def holds(self, other: Container) -> bool:
        """Whether the affinity applies to another container."""
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
    """The affinities of a container. Raises NoPlace if an annotation of its pod is invalid."""
    entries: list[Affinity] = []
    for key, sign in _KEYS.items():
        text = container.pod.annotations.get(key)
        if text is None:
            continue
        try:
            entries += _read(container, key, text, sign, choices)
        except (ConfigError, ValueError) as error:
            raise container.refusal(key, error) from error
    return entries


def _read(container: Container, key: str, text: str, sign: int, choices: Choices) -> list[Affinity]:
    tree = parse_text(Source(f"annotation {key}", text))
    tree = {} if tree is None else tree
    if not isinstance(tree, dict) or not all(isinstance(value, list | None) for value in tree.values()):
        raise ValueError("the value must be a table of lists with container names as keys")
    tree = {name: listed or [] for name, listed in tree.items()}
    if all(isinstance(entry, str) for listed in tree.values() for entry in listed):
        return _mutual_affinities(container, tree, sign)
    if (number := sum(map(len, tree.values()))) > _MAX_PER_POD:
        raise ValueError(f"{number} affinities; a pod may have at most {_MAX_PER_POD}")
    entries = []
    for name, listed in tree.items():
        if len(listed) > _MAX_PER_CONTAINER:
            raise ValueError(f"{len(listed)} affinities of {name}; a container may have at most {_MAX_PER_CONTAINER}")
        for tree_of_entry in listed:
            # Entries of other containers are read too: a mistake in one entry refuses all containers of the pod.
            full = read(_Full, [_source(key, tree_of_entry)])
            scope = full.scope or _pod(container.pod.name)
            for expression in () if choices.always_true_needs_no_key else (scope, full.match):
                expression.check_key()
            weight = max(-_MAX_WEIGHT, min(full.weight or 1, _MAX_WEIGHT)) * sign
            if name == container.name:
                entries.append(Affinity(scope, full.match, weight))
    _check_values(sum(len(entry.scope.values) + len(entry.match.values) for entry in entries))
    return entries


def _check_values(number: int) -> None:
    """Raise ValueError for more values than can be compared with every container of the node in time."""
    if number > _MAX_VALUES:
        raise ValueError(f"{number} values to compare with; a container may have at most {_MAX_VALUES}")


def _source(key: str, tree: Any) -> Source:
    return Source(f"annotation {key}", json.dumps(tree), "json")


def _mutual_affinities(container: Container, tree: dict[str, list[str]], sign: int) -> list[Affinity]:
    names = set(tree.get(container.name, []))
    names.update(name for name, listed in tree.items() if container.name in listed)
    if not names:
        return []
    _check_values(len(names))
    return [Affinity(_pod(container.pod.name), Expression("In", "name", sorted(names)), sign)]
