"""Sources of configuration merged into one instance of an annotated class, with the location of each value.

Later layers override earlier layers, key by key. Every problem of every layer is reported at once. A class with a
`resource_kind` also accepts a Kubernetes resource of that kind, and reads its `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from nri.config import syntax, typed
from nri.config.complaint import MAX_PROBLEMS, Problem, WrongValue, combined_error, shorten
from nri.config.key_path import Path, location, path_text
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.source import Source

T = TypeVar("T")


class Layer(NamedTuple):
    """The keys of one source, and a function that returns the location of the key at a path."""

    tree: Any
    place: Callable[[Path], str]


class MergedLayers(NamedTuple, Generic[T]):
    """The instance, and the location of every value that is not a default, by key in the format of `path_text`."""

    value: T
    origins: Mapping[str, str]


def parse_layer(source: Source) -> Layer:
    """The layer of a source. Raises ConfigError if it cannot be parsed."""
    tree = syntax.parse_text(source)
    lines = syntax.Lines(source)
    return Layer({} if tree is None else tree, lambda path: location(source, lines.near(path)))


def read(cls: type[T], sources: Sequence[Source]) -> T:
    """An instance of `cls`. Each field has its value in the last source that sets the field, else its default.

    Nested classes are merged key by key, lists and dicts replaced. Empty sources are ignored. An unknown key is an
    error. Raises ConfigError for the first problem, with all further problems of all sources in `others`.
    """
    layers: list[Layer | ConfigError] = []
    for source in sources:
        try:
            layers.append(parse_layer(source))
        except ConfigError as error:
            layers.append(error)
    instance: T = _merge(cls, layers, None)
    return instance


def merge(cls: type[T], layers: Sequence[Layer | ConfigError]) -> MergedLayers[T]:
    """An instance of `cls` from all layers. The error of a layer that could not be read is reported with the others.

    Raises ConfigError for the first problem, with all other problems in `others`.
    """
    places: dict[Path, str] = {}
    instance: T = _merge(cls, layers, places)
    return MergedLayers(instance, {path_text(path): place for path, place in places.items()})


def _merge(cls: type, layers: Sequence[Layer | ConfigError], places: dict[Path, str] | None) -> Any:
    """An instance from all layers. If `places` is not None, the location of every value is added to it."""
    errors: list[ConfigError] = []
    merged = typed.Partial(cls, {})
    read_layers: list[Layer] = []
    for source_layer in layers:
        layer = source_layer if isinstance(source_layer, ConfigError) else _unwrapped_layer(cls, source_layer)
        if isinstance(layer, ConfigError):
            errors.append(layer)
            continue
        problems: list[Problem] = []
        partial = typed.check(cls, layer.tree, (), problems)
        errors += _located_errors(layer.place, problems)
        read_layers.append(layer)
        if not problems:
            merged.update(partial)
            if places is not None:
                _remember(places, partial, layer)
    instance = None
    if not errors:
        missing: list[Problem] = []
        instance = typed.build(merged, (), missing)
        errors = [_error(_key_place(problem.path, read_layers), problem) for problem in missing]
    if errors:
        raise combined_error(errors)
    return instance


def _key_place(path: Path, layers: Sequence[Layer]) -> str:
    """The location of a key, in the last of the layers that have the longest part of its path."""
    depth, last = max(((_depth(layer.tree, path), n) for n, layer in enumerate(layers)), default=(0, None))
    return "configuration" if last is None else layers[last].place(path[:depth])


def _depth(tree: Any, path: Path) -> int:
    """The number of keys of a path that exist in a tree."""
    for depth, part in enumerate(path):
        keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
        if part not in keys:
            return depth
        tree = tree[part]
    return len(path)


def _unwrapped_layer(cls: type, layer: Layer) -> Layer | ConfigError:
    """Return the layer below `spec`, if the tree is a Kubernetes resource and `cls` has a `resource_kind`."""
    kind, tree = getattr(cls, "resource_kind", ""), layer.tree
    if not kind or not isinstance(tree, dict) or "kind" not in tree:
        return layer
    if tree["kind"] != kind:
        return ConfigError(layer.place(("kind",)), "kind", f"expected {kind}, not {shorten(tree['kind'])}")
    return Layer(tree.get("spec") or {}, lambda path: layer.place(("spec", *path)))


def _remember(places: dict[Path, str], partial: typed.Partial, layer: Layer) -> None:
    """Store the locations of a layer's values; they replace the locations of overridden values."""
    for path in _value_paths(partial):
        for earlier in [earlier for earlier in places if earlier[: len(path)] == path]:
            del places[earlier]
        places |= {inner: layer.place(inner) for inner in _paths_below(_value_at(layer.tree, path), path)}


def _value_paths(partial: typed.Partial, path: Path = ()) -> Iterator[Path]:
    """The paths of all values. A list or mapping that is replaced entirely has one path."""
    for name, value in partial.values.items():
        if isinstance(value, typed.Partial):
            yield from _value_paths(value, (*path, name))
        else:
            yield (*path, name)


def _value_at(tree: Any, path: Path) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def _paths_below(value: Any, path: Path) -> Iterator[Path]:
    """The path of a value, and the paths of all values in it."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _paths_below(inner, (*path, key))


def located_errors(source: Source, problems: Sequence[Problem]) -> list[ConfigError]:
    """The first problems as errors in the order of lines, with source and, if known, line. Others are only counted."""
    lines = syntax.Lines(source)
    ordered = sorted(problems, key=lambda problem: lines.near(problem.path) or 0)
    return _located_errors(lambda path: location(source, lines.near(path)), ordered)


def value_error(cls: type, source: Source, error: WrongValue) -> ConfigError:
    """The error for a value in a source of `cls` that conflicts with a value outside of the source."""
    layer = _unwrapped_layer(cls, parse_layer(source))
    where = source.name if isinstance(layer, ConfigError) else layer.place(error.path)
    return _error(where, Problem(error.path, error.reason, error.suggestion))


def _located_errors(place: Callable[[Path], str], problems: Sequence[Problem]) -> list[ConfigError]:
    errors = [_error(place(problem.path), problem) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        errors.append(ConfigError(place(()), "", f"{len(problems) - MAX_PROBLEMS} more problems like these"))
    return errors


def _error(where: str, problem: Problem) -> ConfigError:
    return ConfigError(where, path_text(problem.path), problem.reason, problem.suggestion)
