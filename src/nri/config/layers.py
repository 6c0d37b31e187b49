"""Sources of configuration merged into one instance of an annotated class, with the place that each value came from.

Later layers override earlier ones, key by key. Every problem of every layer is reported at once. A class with a
`resource_kind` also takes a Kubernetes resource of that kind, whose `spec` it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from nri.config import syntax, typed
from nri.config.complaint import MAX_PROBLEMS, Problem, WrongValue, shorten, together
from nri.config.place import Path, at, show
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.source import Source

__all__ = ["Layer", "Merged", "layer_of", "located", "merge", "read", "refused"]

T = TypeVar("T")


class Layer(NamedTuple):
    """The keys of one source, and a function that returns the place of the key at a path."""

    tree: Any
    place: Callable[[Path], str]


class Merged(NamedTuple, Generic[T]):
    """The instance, and the place of every value that is not a default, by its key as `show` writes it."""

    value: T
    origins: Mapping[str, str]


def layer_of(source: Source) -> Layer:
    """The layer of a text. ConfigError if it cannot be parsed."""
    tree = syntax.parse_text(source)
    lines = syntax.Lines(source)
    return Layer({} if tree is None else tree, lambda path: at(source, lines.near(path)))


def read(cls: type[T], sources: Sequence[Source]) -> T:
    """An instance of `cls`, its fields taken from the last source that gives them, else from the class's defaults.

    Nested classes are merged key by key, lists and dicts replaced. Empty texts say nothing. An unknown key is an error.
    Raises ConfigError for the first problem, with all further ones of all sources in `others`.
    """
    layers: list[Layer | ConfigError] = []
    for source in sources:
        try:
            layers.append(layer_of(source))
        except ConfigError as error:
            layers.append(error)
    instance: T = _merge(cls, layers, None)
    return instance


def merge(cls: type[T], layers: Sequence[Layer | ConfigError]) -> Merged[T]:
    """An instance of `cls` of all layers; of one that could not be read, its error is reported with the others.

    Raises ConfigError for the first problem, with all others in `others`.
    """
    places: dict[Path, str] = {}
    instance: T = _merge(cls, layers, places)
    return Merged(instance, {show(path): place for path, place in places.items()})


def _merge(cls: type, layers: Sequence[Layer | ConfigError], places: dict[Path, str] | None) -> Any:
    """An instance of all layers. `places` gets the place of every value, if that is wanted."""
    errors: list[ConfigError] = []
    merged = typed.Partial(cls, {})
    read_layers: list[Layer] = []
    for source_layer in layers:
        layer = source_layer if isinstance(source_layer, ConfigError) else _unwrapped(cls, source_layer)
        if isinstance(layer, ConfigError):
            errors.append(layer)
            continue
        problems: list[Problem] = []
        partial = typed.check(cls, layer.tree, (), problems)
        errors += _located(layer.place, problems)
        read_layers.append(layer)
        if not problems:
            merged.update(partial)
            if places is not None:
                _remember(places, partial, layer)
    instance = None
    if not errors:
        missing: list[Problem] = []
        instance = typed.build(merged, (), missing)
        errors = [_error(_place(problem.path, read_layers), problem) for problem in missing]
    if errors:
        raise together(errors)
    return instance


def _place(path: Path, layers: Sequence[Layer]) -> str:
    """The place of a key in the last layer of those that have the most of its path."""
    depth, last = max(((_depth(layer.tree, path), n) for n, layer in enumerate(layers)), default=(0, None))
    return "configuration" if last is None else layers[last].place(path[:depth])


def _depth(tree: Any, path: Path) -> int:
    """How many keys of a path are in a tree."""
    for depth, part in enumerate(path):
        keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
        if part not in keys:
            return depth
        tree = tree[part]
    return len(path)


def _unwrapped(cls: type, layer: Layer) -> Layer | ConfigError:
    """Return the layer below `spec`, if the tree is a Kubernetes resource and `cls` has a `resource_kind`."""
    kind, tree = getattr(cls, "resource_kind", ""), layer.tree
    if not kind or not isinstance(tree, dict) or "kind" not in tree:
        return layer
    if tree["kind"] != kind:
        return ConfigError(layer.place(("kind",)), "kind", f"expected {kind}, not {shorten(tree['kind'])}")
    return Layer(tree.get("spec") or {}, lambda path: layer.place(("spec", *path)))


def _remember(places: dict[Path, str], partial: typed.Partial, layer: Layer) -> None:
    """Note the places of a layer's values, over those of the values that they replace."""
    for path in _leaves(partial):
        for earlier in [earlier for earlier in places if earlier[: len(path)] == path]:
            del places[earlier]
        places |= {inner: layer.place(inner) for inner in _below(_at(layer.tree, path), path)}


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


def located(source: Source, problems: Sequence[Problem]) -> list[ConfigError]:
    """The first problems as errors in the order of lines, with source and, where known, line; others are counted."""
    lines = syntax.Lines(source)
    ordered = sorted(problems, key=lambda problem: lines.near(problem.path) or 0)
    return _located(lambda path: at(source, lines.near(path)), ordered)


def refused(cls: type, source: Source, error: WrongValue) -> ConfigError:
    """The error for a value of a source that was read as `cls`, and that does not go with something else."""
    layer = _unwrapped(cls, layer_of(source))
    where = source.name if isinstance(layer, ConfigError) else layer.place(error.path)
    return _error(where, Problem(error.path, error.reason, error.suggestion))


def _located(place: Callable[[Path], str], problems: Sequence[Problem]) -> list[ConfigError]:
    errors = [_error(place(problem.path), problem) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        errors.append(ConfigError(place(()), "", f"{len(problems) - MAX_PROBLEMS} more problems like these"))
    return errors


def _error(where: str, problem: Problem) -> ConfigError:
    return ConfigError(where, show(problem.path), problem.reason, problem.suggestion)
