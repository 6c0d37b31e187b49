"""`read`: sources parsed and checked in order and merged key by key; an instance, or one error with all problems."""

from __future__ import annotations

from typing import Any, TypeVar

from nri.config import syntax, typed
from nri.config.complaint import MOST_PROBLEMS, together
from nri.config.place import at, show
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.complaint import Problem
    from nri.config.source import Source

T = TypeVar("T")


def read(cls: type[T], sources: Sequence[Source]) -> T:
    """An instance of `cls`, its fields taken from the last source that gives them, else from the class's defaults.

    Nested classes are merged key by key, lists and dicts replaced. Empty texts say nothing. An unknown key is an error.
    Raises ConfigError for the first problem, with all further ones of all sources in `others`.
    """
    errors: list[ConfigError] = []
    whole = typed.Partial(cls, {})
    for source in sources:
        try:
            tree = syntax.parse_text(source)
        except ConfigError as error:
            errors.append(error)
            continue
        if tree is not None:
            problems: list[Problem] = []
            whole.update(typed.check(cls, tree, (), problems))
            errors += located(source, problems)
    made: T = _finish(whole, sources, errors)
    return made


def _finish(whole: typed.Partial, sources: Sequence[Source], errors: list[ConfigError]) -> Any:
    """Build what all sources said together. What is missing then is missing in every one of them."""
    made = None
    if not errors:
        missing: list[Problem] = []
        made = typed.build(whole, (), missing)
        where = sources[-1].name if sources else "configuration"
        errors = [_error(where, problem) for problem in missing]
    if errors:
        raise together(errors)
    return made


def located(source: Source, problems: Sequence[Problem]) -> list[ConfigError]:
    """The first problems as errors, with the source's name and, where it can be found, the line; others are counted."""
    lines = syntax.Lines(source)
    errors = [_error(at(source, lines.find(problem.path)), problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        errors.append(ConfigError(source.name, "", f"{len(problems) - MOST_PROBLEMS} more problems like these"))
    return errors


def _error(where: str, problem: Problem) -> ConfigError:
    return ConfigError(where, show(problem.path), problem.reason, problem.suggestion)
