"""The options for a program's settings: --config, --set, and flags for single keys.

`--set` overrides the flags; the flags override the environment and the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from nri.cli.output import Output
    from nri.cli.settings import Settings
    from nri.config.listing import Key
    from nri.config.settings import LoadedSettings, NamedValue, SettingsLoader

T = TypeVar("T")
#: The function that a decorator of click takes and returns.
_Command = Callable[..., Any]


class Flag(NamedTuple):
    """An option that sets one or more keys.

    Attributes:
            name: the option's name, with its dashes.
            key: the key that the option sets, or a function from the option's value to the keys and values to set.
            metavar: the placeholder for the value in the help.
            help: the purpose of the option.
            multiple: the option may be given several times; verbs that need a single value use the last.
    """

    name: str
    key: str | Callable[[str], Mapping[str, Any]]
    metavar: str
    help: str
    multiple: bool = False

    @property
    def parameter(self) -> str:
        """The verb's parameter; the prefix `set_` avoids clashes with the verb's other parameters."""
        return "set_" + self.name.strip("-").replace("-", "_")

    def values(self, text: str) -> Mapping[str, Any]:
        """The settings by dotted key, for a value on the command line."""
        return {self.key: text} if isinstance(self.key, str) else self.key(text)


class SettingsOptions(Generic[T]):
    """The options for a program's settings.

    Args:
            loader: returns the loader of the settings, which is imported only when it is used.
            file: the default configuration file, for the help.
            socket_key: the key that the global option --socket-path sets.
            example: a setting, as KEY=VALUE.
            flags: the program's flags, in the order of the help.
    """

    def __init__(
        self, loader: Callable[[], SettingsLoader[T]], file: str, socket_key: str, example: str, flags: tuple[Flag, ...]
    ) -> None:
        self._loader, self._socket_key, self._example, self._flags = loader, socket_key, example, flags
        self._config = click.option(
            "--config",
            "files",
            multiple=True,
            type=click.Path(),
            metavar="FILE",
            help=f"Read this file instead of {file}. If given several times, later files override earlier ones.",
        )
        self._set = click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help=f"Set any key of the file, for example {example}.",
        )

    def __call__(self, command: _Command) -> _Command:
        """Add all options to a verb."""
        return self.only(*(flag.name for flag in self._flags))(command)

    def only(self, *names: str) -> Callable[[_Command], _Command]:
        """Return a decorator that adds --set, --config and the flags of these names to a verb."""

        def give(command: _Command) -> _Command:
            command = self._set(command)
            for flag in reversed(self._flags):
                if flag.name in names:
                    attributes = {"metavar": flag.metavar, "help": flag.help, "multiple": flag.multiple}
                    command = click.option(flag.name, flag.parameter, **attributes)(command)
            return self._config(command)

        return give

    def load(self, settings: Settings, options: Mapping[str, Any]) -> LoadedSettings[T]:
        """Read the settings from files, environment and options. Raises ConfigError with all mistakes."""
        return self._loader().load(*options["files"], flags=self.flag_settings(settings, options))

    def flag_settings(self, settings: Settings, options: Mapping[str, Any]) -> dict[str, NamedValue]:
        """The settings of the command line by dotted key, with options. Raises ConfigError for an invalid --set."""
        from nri.config.settings import parse_setting

        flag_values: dict[str, NamedValue] = {}
        for flag in self._flags:
            text = options.get(flag.parameter)
            if flag.multiple and text is not None:
                text = text[-1] if text else None
            if text is not None:
                values = flag.values(text)
                flag_values |= {key: (flag.name, value) for key, value in values.items()}
        if settings.socket_path:
            flag_values[self._socket_key] = (settings.socket_from, settings.socket_path)
        texts = (
            {key.key for key in self._loader().known_keys() if key.kind == "string"} if options["assignments"] else ()
        )
        for text in options["assignments"]:
            key, value = parse_setting(text, self._example, texts)
            flag_values[key] = ("--set", value)
        return flag_values

    def list_keys(self, settings: Settings, prefix: str, verb: str) -> None:
        """Print the keys that begin with a prefix, for the verb of this name. Raises Failure if no key matches."""
        from nri.cli.errors import USAGE, Failure
        from nri.cli.output import Column, Output

        keys = [key for key in self._loader().known_keys() if key.key.startswith(prefix)]
        if not keys:
            raise Failure(f'no key begins with "{prefix}". try: {verb}', USAGE)
        columns = [
            Column("KEY", "key"),
            Column("TYPE", "kind", 40),
            Column("DEFAULT", "default"),
            Column("MEANING", "meaning"),
        ]
        out = Output(settings)
        if out.human and out.width and not out.quiet:
            _describe(out, keys)
        else:
            out.table(columns, [key._asdict() for key in keys])


def _describe(out: Output, keys: Sequence[Key]) -> None:
    """Print keys as paragraphs, for a terminal that is too narrow for a table with all meanings."""
    from textwrap import wrap

    from nri.cli.output import PaintedText

    for key in keys:
        out.text(PaintedText(key.key, "bold"))
        for text in (key.shape, key.meaning):
            for line in wrap(text, max(out.width - 4, 16)):
                out.text(f"    {line}")
