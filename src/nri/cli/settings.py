"""The global options, which may be before or after the verb, their values (`Settings`), and types of parameters.

`Settings` is the only state of the command; a verb gets it by `click.pass_obj`.
"""

from __future__ import annotations

import os
import stat
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # generic since click 8.3 only


class Settings:
    """The values of the global options.

    Attributes:
        socket_path: None unless set by --socket-path or NRI_SOCKET.
            socket_from: "--socket-path" or "NRI_SOCKET": the source of `socket_path`.
        verbose: the number of -v options; with 2, tracebacks are shown.
        timeout_s: None unless set by --timeout.
    """

    __slots__ = ("color", "log_format", "output", "quiet", "socket_from", "socket_path", "timeout_s", "verbose", "wide")

    def __init__(self) -> None:
        self.socket_path: str | None = None
        self.socket_from = ""
        self.output = "table"
        self.quiet = False
        self.wide = False
        self.verbose = 0
        self.log_format = "text"
        self.color = "auto"
        self.timeout_s: float | None = None


class DurationType(_FloatType):
    """A duration on the command line between two bounds: `5s`, `1m30s`, or a number of seconds without a unit."""

    name = "duration"

    def __init__(self, min_s: float = 0.0, max_s: float = inf) -> None:
        self._min_s, self._max_s = min_s, max_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from nri.config.duration import parse_duration

        if isinstance(value, float):
            return value
        try:
            seconds = float(value) if value.replace(".", "", 1).isdigit() else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f'"{value}" is not a positive duration', param, ctx)
        if not self._min_s <= seconds <= self._max_s:
            self.fail(f'"{value}" is not between {self._min_s:g} and {self._max_s:g} seconds', param, ctx)
        return seconds


DURATION = DurationType()


class PathType(click.Path):
    """A file or a folder, which need not exist. "" is refused, because the system takes it for the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("the path is empty: specify a file or a folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = PathType()


class FileType(click.Path):
    """An existing regular file, as a `pathlib.Path`. Pipes are refused, because reading one could wait forever."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            status = os.stat(value)
        except PermissionError:
            raise  # click would report that the file does not exist
        except OSError:
            pass
        else:
            if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
                self.fail(f"{os.fspath(value)!r} is not a regular file.", param, ctx)
        return super().convert(value, param, ctx)


FILE = FileType()
#: Options for the two folders of plugins that a runtime launches.
PLUGIN_DIR = click.option(
    "--plugin-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The runtime's plugin folder. Default: /opt/nri/plugins.",
)
CONFIG_DIR = click.option(
    "--config-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The runtime's folder of plugin configuration. Default: /etc/nri/conf.d.",
)


def _store_option(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Store an option that was set. An option that was not set keeps the value that it had before the verb."""
    settings = ctx.find_object(Settings)
    if settings is None or value is None or value is False or value == 0 or param.name is None:
        return
    if param.name == "verbose":
        value = settings.verbose + int(str(value))
    if param.name == "socket_path":
        from_environment = ctx.get_parameter_source(param.name) is click.core.ParameterSource.ENVIRONMENT
        if from_environment and settings.socket_path:
            return  # a flag before the verb has precedence
        settings.socket_from = "NRI_SOCKET" if from_environment else "--socket-path"
    setattr(settings, param.name, value)


#: Declarations and attributes of the options that every verb accepts.
GLOBAL_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--socket-path",), {"metavar": "PATH", "help": "The runtime's NRI socket (environment: NRI_SOCKET)."}),
    (("--output", "-o"), {"type": click.Choice(["table", "json", "yaml"]), "help": "The format of results."}),
    (("--wide", "-w"), {"is_flag": True, "help": "Do not cut tables to the width of the terminal."}),
    (("--quiet", "-q"), {"is_flag": True, "help": "Print only names or ids."}),
    (("--verbose", "-v"), {"count": True, "help": "Log more; -v -v also shows tracebacks."}),
    (("--log-format",), {"type": click.Choice(["text", "json"]), "help": "The format of log lines."}),
    (
        ("--color",),
        {
            "type": click.Choice(["auto", "always", "never"]),
            "help": "When to use colours (environment: NO_COLOR, FORCE_COLOR).",
        },
    ),
    (("--timeout", "timeout_s"), {"type": DURATION, "metavar": "5s", "help": "How long to wait for an answer."}),
)


def global_options(*, environment: bool = False) -> list[click.Option]:
    """Create the click options of `GLOBAL_OPTIONS`; with `environment`, NRI_SOCKET is read for --socket-path."""
    options = []
    for names, attributes in GLOBAL_OPTIONS:
        extra: dict[str, Any] = {"envvar": "NRI_SOCKET"} if environment and names[0] == "--socket-path" else {}
        options.append(click.Option(list(names), expose_value=False, callback=_store_option, **attributes, **extra))
    return options
