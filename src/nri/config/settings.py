"""Settings of a long-running program: from files, environment and flags, each with its origin.

    AGENT = SettingsLoader(AgentSettings, "/etc/nri/agent.toml", "NRI_AGENT_CONFIG", {"NRI_AGENT_ROOT": "root"})
    loaded = AGENT.load(flags={"modes": ("--mode", ["nri"])})
    loaded.settings.modes, loaded.origins["modes"]

Later sources override earlier sources, key by key: defaults, files in the given order, environment, flags. Unknown keys
are errors, and the errors of all sources are reported together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from nri.config.layers import Layer, merge, parse_layer
from nri.config.listing import Key, keys
from nri.config.source import Source, read_file
from nri.config.syntax import parse_text
from nri.errors import ConfigError

T = TypeVar("T")

#: The name of a flag or variable, and its value.
NamedValue = tuple[str, Any]


class FileLayer(NamedTuple):
    """The keys of a file, and remarks for its author, each on a line."""

    layer: Layer
    notes: Sequence[str] = ()


class LoadedSettings(NamedTuple, Generic[T]):
    """Settings and their origins.

    Attributes:
        settings: an instance of the loader's class.
        origins: the origin by dotted key: "file:line", a flag or an environment variable. Other keys are defaults.
        files: the files that were read.
        notes: remarks for the authors of the files, each on a line.
    """

    settings: T
    origins: Mapping[str, str]
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def file_layer(name: str) -> FileLayer:
    """Read a file, as TOML unless its suffix names another format. Raises ConfigError if it cannot be parsed."""
    source = read_file(name)
    return FileLayer(parse_layer(source if source.format != "auto" else Source(name, source.text, "toml")))


@dataclass(frozen=True, slots=True)
class SettingsLoader(Generic[T]):
    """The sources of a program's settings.

    Attributes:
        cls: a frozen dataclass; its fields are the keys, and an instance without arguments has all defaults.
        default_path: the file that is read if it exists and no other file is named.
        path_variable: the environment variable that names another file.
        variables: the dotted keys that other environment variables set, by variable.
        read_layer: reads a file as a layer; another function for programs that also accept other programs' file
            formats.
    """

    cls: type[T]
    default_path: str
    path_variable: str
    variables: Mapping[str, str] = field(default_factory=dict)
    read_layer: Callable[[str], FileLayer] = file_layer

    def load(
        self,
        *paths: str | os.PathLike[str],
        flags: Mapping[str, NamedValue] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> LoadedSettings[T]:
        """Read the settings. `flags` are values by dotted key. Raises ConfigError with all problems of all sources.

        Without paths, the file is the value of `path_variable`, else `default_path` if it exists.
        """
        variables = os.environ if environment is None else environment
        names = tuple(os.fspath(path) for path in paths) or self._default_files(variables)
        layers: list[Layer | ConfigError] = []
        notes: list[str] = []
        for name in names:
            try:
                file = self.read_layer(name)
            except ConfigError as error:
                layers.append(error)
                continue
            layers.append(file.layer)
            notes += file.notes
        variable_values = {key: (name, variables[name]) for name, key in self.variables.items() if variables.get(name)}
        layers += [value_layer(values) for values in (variable_values, flags or {}) if values]
        merged = merge(self.cls, layers)
        return LoadedSettings(merged.value, merged.origins, names, tuple(notes))

    def known_keys(self) -> list[Key]:
        """Every key that is allowed in a file."""
        return keys(self.cls)

    def _default_files(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        named = variables.get(self.path_variable)
        return (named,) if named else (self.default_path,) if os.path.exists(self.default_path) else ()


def parse_setting(text: str, example: str, string_keys: Collection[str] = ()) -> tuple[str, Any]:
    """Parse ``KEY=VALUE``. VALUE is TOML, or else a string. Raises ConfigError if there is no key.

    `example` is shown in the error. The value of a key in `string_keys` is a string even if
    it looks like a number (``10``), because the shell removes the quotes of a TOML string.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise ConfigError("--set", key, "not KEY=VALUE", f"write, for example, --set {example}")
    try:
        parsed = parse_text(Source("--set", f"value = {value}", "toml"))["value"]
    except ConfigError:
        return key, value
    return key, value if key in string_keys and isinstance(parsed, (int, float)) else parsed


def value_layer(values: Mapping[str, NamedValue]) -> Layer:
    """Values by dotted key as a layer. The location of a value is its flag or variable."""
    tree: dict[str, Any] = {}
    for key, (name, value) in values.items():
        *above, last = key.split(".")
        table = tree
        for part in above:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(name, key, f'"{part}" is a value, not a table')
        if isinstance(table.get(last), dict):
            raise ConfigError(name, key, f'other keys of the table "{last}" are set', "set each key of the table")
        table[last] = value

    def place(path: Sequence[str | int]) -> str:
        for end in range(len(path), 0, -1):
            prefix = ".".join(map(str, path[:end]))
            if prefix in values:
                return values[prefix][0]
        full_key = ".".join(map(str, path))
        below = [name for key, (name, _) in values.items() if key.startswith(f"{full_key}.")]
        return ", ".join(dict.fromkeys(below or [name for name, _ in values.values()]))

    return Layer(tree, place)
