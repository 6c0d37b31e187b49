"""Trees of configuration from many places merged into one instance, with the place that each value came from.

As `nri.config.reader.read`, for those who have to say afterwards who set what: files of several formats, environment
and flags become layers, the later over the earlier key by key. Every problem of every layer is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from nri.config import syntax, typed
from nri.config.complaint import MOST_PROBLEMS, Problem, together
from nri.config.place import Path, at, show
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.source import Source

__all__ = ["Layer", "Merged", "layer_of", "merge"]

T = TypeVar("T")


class Layer(NamedTuple):
    """The keys that one source gives, and a function that tells where the key at a path stands."""

    tree: Any
    place: Callable[[Path], str]


class Merged(NamedTuple, Generic[T]):
    """The instance, and for every value that is no default where it came from, by its key as `show` writes it."""

    value: T
    origins: Mapping[str, str]


def layer_of(source: Source) -> Layer:
    """The layer of a text. ConfigError if it cannot be parsed."""
    tree = syntax.parse_text(source)
    lines = syntax.Lines(source)
    return Layer({} if tree is None else tree, lambda path: at(source, lines.find(path)))


def merge(cls: type[T], layers: Sequence[Layer]) -> Merged[T]:
    """An instance of `cls` of all layers. Raises ConfigError for the first problem, with all others in `others`."""
    errors: list[ConfigError] = []
    whole = typed.Partial(cls, {})
    places: dict[Path, str] = {}
    for layer in layers:
        problems: list[Problem] = []
        partial = typed.check(cls, layer.tree, (), problems)
        errors += [_error(layer.place(problem.path), problem) for problem in problems[:MOST_PROBLEMS]]
        if not problems:
            whole.update(partial)
            for path in _leaves(partial):
                places = {known: where for known, where in places.items() if known[: len(path)] != path}
                places |= {inner: layer.place(inner) for inner in _below(_at(layer.tree, path), path)}
    value = None
    if not errors:
        missing: list[Problem] = []
        value = typed.build(whole, (), missing)
        where = layers[-1].place(()) if layers else "configuration"
        errors = [_error(places.get(problem.path, where), problem) for problem in missing]
    if errors:
        raise together(errors)
    made: Any = value
    return Merged(made, {show(path): place for path, place in places.items()})


def _leaves(partial: typed.Partial, path: Path = ()) -> Iterator[Path]:
    """The paths of all values; a list or table that is replaced as a whole is one."""
    for name, value in partial.values.items():
        if isinstance(value, typed.Partial):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name)


def _at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def _below(value: Any, path: Path) -> Iterator[Path]:
    """The path of a value, and those of all that is in it."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _below(inner, (*path, key))


def _error(where: str, problem: Problem) -> ConfigError:
    return ConfigError(where, show(problem.path), problem.reason, problem.suggestion)
