"""The conditions of a hooks.d file, which decide whether a hook applies to a container.

As in podman and CRI-O, all conditions of the current schema must hold, but only one condition of the old schema. In the
old schema `commands` is read only if no other condition holds. A hook without conditions does not apply to any
container.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.config.complaint import shorten
from nri.config.hooks.pattern import Budget, Pattern, TooCostly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class ConditionError(Exception):
    """The conditions cannot be evaluated for the container."""


class Facts(NamedTuple):
    """The properties of a container that conditions use, and the budget of all searches for it."""

    args: Sequence[str]
    annotations: Mapping[str, str]
    has_bind_mounts: bool
    budget: Budget


class When(NamedTuple):
    """The conditions of one file.

    Attributes:
        always: holds if true. None without this condition.
        has_bind_mounts: holds if true and the container has a mount of any type. None without this condition.
        annotations: pairs of patterns for a key and its value; one annotation must match both.
        commands: patterns for the first argument.
        any_of: whether the file has the old schema, in which one condition is enough and `always` does not exist.
    """

    always: bool | None = None
    has_bind_mounts: bool | None = None
    annotations: tuple[tuple[Pattern, Pattern], ...] = ()
    commands: tuple[Pattern, ...] = ()
    any_of: bool = False

    def match(self, facts: Facts) -> bool:
        """Whether the hook applies to the container.

        Raises:
            ConditionError: a command must match and the container has no arguments, or a pattern takes too long.
        """
        holds = False
        for condition in self._conditions(facts):
            if condition() == self.any_of:
                return self.any_of
            holds = not self.any_of
        if not self.commands:
            return holds
        if not facts.args:
            raise ConditionError("process.args must have at least one entry")
        return any(_is_match("command", pattern, facts.args[0], facts.budget) for pattern in self.commands)

    def _conditions(self, facts: Facts) -> list[Callable[[], bool]]:
        """The current conditions except `commands`, as functions."""
        conditions: list[Callable[[], bool]] = []
        if self.always is not None:
            always = self.always
            conditions.append(lambda: always)
        if self.has_bind_mounts is not None:
            expected = self.has_bind_mounts
            conditions.append(lambda: expected and facts.has_bind_mounts)
        conditions += [
            lambda key=key, value=value: _has_annotation(key, value, facts)  # type: ignore[misc]
            for key, value in self.annotations
        ]
        return conditions


def _has_annotation(key: Pattern, value: Pattern, facts: Facts) -> bool:
    return any(
        _is_match("annotation key", key, name, facts.budget)
        and _is_match("annotation value", value, text, facts.budget)
        for name, text in facts.annotations.items()
    )


def _is_match(what: str, pattern: Pattern, text: str, budget: Budget) -> bool:
    try:
        return pattern.matches(text, budget)
    except TooCostly as error:
        search = f"the search for {shorten(pattern.text)} in {len(text)} characters"
        raise ConditionError(f"{what}: {search} is too costly: it and earlier searches take {error}") from None
