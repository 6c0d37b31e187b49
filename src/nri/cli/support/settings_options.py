"""The options that say with which settings a program starts: --config, --set, and flags that set a key each.

Rules: a program has one table of flags, which its verbs share. `--set` overrides the flags, these override the
environment and the files. Next: `nri.config.settings`, which reads the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from nri.cli.output import Output
    from nri.cli.settings import Settings
    from nri.config.listing import Key
    from nri.config.settings import Given, Loaded, SettingsLoader

__all__ = ["Flag", "SettingsOptions"]

T = TypeVar("T")
#: The function that a decorator of click takes and returns.
_Command = Callable[..., Any]


class Flag(NamedTuple):
    """An option that sets keys.

    Attributes:
        name: with its dashes.
        key: the key that it sets, or a function from its text to all keys and values that it sets.
        metavar: the word for its value in the help.
        help: what it is for.
        multiple: whether it may be given several times; verbs that take one value take the last.
    """

    name: str
    key: str | Callable[[str], Mapping[str, Any]]
    metavar: str
    help: str
    multiple: bool = False

    @property
    def parameter(self) -> str:
        """The name under which the verb gets it; `set_` keeps it apart from the verb's own."""
        return "set_" + self.name.strip("-").replace("-", "_")

    def values(self, text: str) -> Mapping[str, Any]:
        """The values by dotted key that a text of the command line gives."""
        return {self.key: text} if isinstance(self.key, str) else self.key(text)


class SettingsOptions(Generic[T]):
    """The options of one program.

    Args:
        loader: gives the loader of its settings, which is imported only when it is used.
        file: the file that is read unless another one is named, for the help.
        socket_key: the key that the global option --socket-path sets.
        example: a setting, as KEY=VALUE.
        flags: its flags, in the order of the help.
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
            "--set", "given", multiple=True, metavar="KEY=VALUE", help=f"Set any key of the file, such as {example}."
        )

    def __call__(self, command: _Command) -> _Command:
        """Give a verb all of the options."""
        return self.only(*(flag.name for flag in self._flags))(command)

    def only(self, *names: str) -> Callable[[_Command], _Command]:
        """Give a verb --set, --config and the flags of these names."""

        def give(command: _Command) -> _Command:
            command = self._set(command)
            for flag in reversed(self._flags):
                if flag.name in names:
                    words = {"metavar": flag.metavar, "help": flag.help, "multiple": flag.multiple}
                    command = click.option(flag.name, flag.parameter, **words)(command)
            return self._config(command)

        return give

    def load(self, settings: Settings, options: Mapping[str, Any]) -> Loaded[T]:
        """Read the settings as options and global options say. Raises ConfigError with all mistakes."""
        return self._loader().load(*options["files"], flags=self.given(settings, options))

    def given(self, settings: Settings, options: Mapping[str, Any]) -> dict[str, Given]:
        """Values by dotted key as the options give them, each with the option. ConfigError for a --set that is none."""
        from nri.config.settings import parse_setting

        found: dict[str, Given] = {}
        for flag in self._flags:
            text = options.get(flag.parameter)
            if flag.multiple and text is not None:
                text = text[-1] if text else None
            if text is not None:
                values = flag.values(text)
                found |= {key: (flag.name, value) for key, value in values.items()}
        if settings.socket_path:
            found[self._socket_key] = (settings.socket_from, settings.socket_path)
        texts = {key.key for key in self._loader().known_keys() if key.kind == "text"} if options["given"] else ()
        for text in options["given"]:
            key, value = parse_setting(text, self._example, texts)
            found[key] = ("--set", value)
        return found

    def list_keys(self, settings: Settings, prefix: str, verb: str) -> None:
        """Print the keys that begin with a prefix, for the verb of this name. Failure if there is none."""
        from nri.cli.errors import USAGE, Failure
        from nri.cli.output import Column, Output

        found = [key for key in self._loader().known_keys() if key.key.startswith(prefix)]
        if not found:
            raise Failure(f'no key begins with "{prefix}". try: {verb}', USAGE)
        columns = [
            Column("KEY", "key"),
            Column("TYPE", "kind", 40),
            Column("DEFAULT", "default"),
            Column("MEANING", "meaning"),
        ]
        out = Output(settings)
        if out.human and out.width and not out.quiet:
            _describe(out, found)
        else:
            out.table(columns, [key._asdict() for key in found])


def _describe(out: Output, keys: Sequence[Key]) -> None:
    """Print keys for a person at a terminal, whose lines are too short for a table with all meanings."""
    from textwrap import wrap

    from nri.cli.output import Painted

    for key in keys:
        out.text(Painted(key.key, "bold"))
        for text in (key.shape, key.meaning):
            for line in wrap(text, max(out.width - 4, 16)):
                out.text(f"    {line}")
