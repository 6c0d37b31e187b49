"""Whether a hook is for a container: the conditions of its file against what is known of the container. Pure.

Rules, as other readers of hooks.d files have them: of the present schema all conditions that are given must hold, of
the old one any; `commands`, if given, has the last word; a hook without conditions is for no container.
Next: `nri.plugins.hook_injector.hook_file` reads conditions from a file.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.config.complaint import shorten
from nri.plugins.hook_injector.pattern import Budget, Pattern, TooCostly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["ConditionError", "Facts", "When"]


class ConditionError(Exception):
    """It cannot be said whether a hook is for the container; the text says why."""


class Facts(NamedTuple):
    """The facts of a container that conditions ask for: its arguments, all annotations, and whether it has a mount.

    `budget` is what all searches for this container may cost together.
    """

    args: Sequence[str]
    annotations: Mapping[str, str]
    has_bind_mounts: bool
    budget: Budget


class When(NamedTuple):
    """The conditions of one file.

    Attributes:
        always: holds if true; None: not given.
        has_bind_mounts: holds if true, and the container has a mount; None: not given.
        annotations: pairs of patterns, for a key and for its value: one annotation must fit both.
        commands: patterns for the first argument.
        any_of: the old schema: one condition is enough, and `always` is not among them.
    """

    always: bool | None = None
    has_bind_mounts: bool | None = None
    annotations: tuple[tuple[Pattern, Pattern], ...] = ()
    commands: tuple[Pattern, ...] = ()
    any_of: bool = False

    def match(self, facts: Facts) -> bool:
        """Whether the hook is for the container.

        Raises:
            ConditionError: there are `commands`, and the container has no arguments; or a pattern takes too long.
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
        """The conditions that are given but for `commands`, each as a question."""
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
        return pattern.found_in(text, budget)
    except TooCostly as error:
        searched = f"a search for {shorten(pattern.text)} in {len(text)} characters"
        raise ConditionError(f"{what}: {searched}, and those before it, take {error}") from None
