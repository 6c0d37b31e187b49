"""Options of a plugin's program, from flags, environment and file name, in this order of precedence.

They are parsed here because importing argparse adds 8 ms to the start. Flags work with one dash as well, as in
manifests of Go plugins, and with `=`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from nri.api import naming
from nri.api.events import EventMask
from nri.errors import ConfigError
from nri.text import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Flag(NamedTuple):
    """A flag of the command line, without its name.

    Attributes:
        field: the attribute that the flag sets, of `Options`, or of the plugin's `Config` for a flag of the plugin.
        value_name: the name of its value in the help; empty for a switch.
        help: the purpose of the flag, in a few words.
    """

    field: str
    value_name: str
    help: str


#: The flags that every plugin has, by name.
FLAGS: dict[str, Flag] = {
    "idx": Flag("index", "NN", f"position in the order of plugins, two digits (default {naming.DEFAULT_INDEX})"),
    "name": Flag("name", "NAME", "plugin name (default: the name of the class)"),
    "socket-path": Flag("socket", "PATH", f"the runtime's socket (default {naming.DEFAULT_SOCKET}; env NRI_SOCKET)"),
    "config": Flag("config", "FILE", "configuration file; watched: a change calls configure() again"),
    "events": Flag("events", "LIST", "subscribe only to these events: all, pod, container, or names, comma-separated"),
    "unsupported": Flag(
        "unsupported",
        "leave-out|refuse",
        "changes that Docker or iSulad cannot apply are left out (default), or fail the creation (env NRI_UNSUPPORTED)",
    ),
    "no-reconnect": Flag("no_reconnect", "", "exit if the runtime does not answer or stops"),
    "log-level": Flag("log_level", "LEVEL", "debug, info, warning or error (default info)"),
    "log-format": Flag("log_format", "FORM", "text or json (default text)"),
    "log-file": Flag("log_file", "FILE", "log to this file instead of stderr"),
    "health-addr": Flag("health_addr", "HOST:PORT", "serve /healthz and /readyz on this address"),
    "metrics": Flag("metrics_addr", "HOST:PORT", "also serve /metrics; may be the same address"),
    "verbose": Flag("verbose", "", "equals --log-level debug"),
    "version": Flag("version", "", "print the versions and exit"),
    "help": Flag("help", "", "print this help and exit"),
}
_ALIASES = {"h": "help", "v": "verbose", "socket": "socket-path", "i": "idx"}
_LEVELS = ("debug", "info", "warning", "error")


class Options:
    """The options of a run. `index` is "" until `identify` sets it."""

    __slots__ = (
        "check_messages", "config", "events", "health_addr", "help", "index", "log_file", "log_format", "log_level",
        "metrics_addr", "name", "named_events", "no_reconnect", "no_wait", "own", "registration_timeout_s", "socket",
        "socket_fd", "spare_names", "unsupported", "verbose", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.index = self.name = self.socket = self.unsupported = ""
        #: Whether a handler that changes the message of its request fails.
        self.check_messages = False
        self.config: str | None = None
        self.events: EventMask | None = None
        #: The events in `events` that are listed by name, and not as a group.
        self.named_events = EventMask(0)
        self.no_reconnect = self.verbose = self.version = self.help = False
        #: Exit if the runtime does not answer at the start, but later wait for it. For `nri events -f`; there is no
        #: flag.
        self.no_wait = False
        self.log_level, self.log_format = "info", "text"
        self.log_file: str | None = None
        self.health_addr: str | None = None
        self.metrics_addr: str | None = None
        #: Names to try in turn if a connected plugin already has `name`. For `nri events -f`; there is no flag.
        self.spare_names: list[str] = []
        #: The descriptor of a connection that the runtime has opened, or None.
        self.socket_fd: int | None = None
        self.registration_timeout_s = naming.REGISTRATION_TIMEOUT_S
        #: The flags that the plugin's class defines: for each flag its values, or True or False for a switch.
        self.own: dict[str, list[str] | bool] = {}


_NO_FLAGS: Mapping[str, tuple[str, str, str]] = {}


def parse(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    program: str,
    class_name: str,
    plugin_flags: Mapping[str, tuple[str, str, str]] = _NO_FLAGS,
    default_index: str = naming.DEFAULT_INDEX,
) -> Options:
    """Parse flags and environment, and determine index and name.

    Args:
        arguments: the command line without the program.
        environment: the environment of the process.
        program: the path of the program; a file name NN-name sets index and name.
        class_name: the name if no other source sets it.
        plugin_flags: the flags that the plugin's class defines (`Plugin.flags`).
        default_index: the index if no other source sets it.

    Raises:
        ConfigError: with the flag or variable, and the fix.
    """
    options = Options()
    _read_flags(options, arguments, plugin_flags)
    if options.help or options.version:
        return options
    if options.verbose:
        options.log_level = "debug"
    _read_environment(options, environment)
    identify(options, environment, program, class_name, default_index)
    return options


def _read_flags(options: Options, arguments: Sequence[str], plugin_flags: Mapping[str, tuple[str, str, str]]) -> None:
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        flag, equals, value = word.lstrip("-").partition("=")
        flag = flag if flag in plugin_flags else _ALIASES.get(flag, flag)
        flag_row = plugin_flags.get(flag) or FLAGS.get(flag)
        if not word.startswith("-") or flag_row is None:
            raise ConfigError("command line", word, "unknown argument", _suggest(flag, (*plugin_flags, *FLAGS)))
        field, value_name, _ = flag_row
        if not value_name:
            if equals and value not in ("true", "false"):
                raise ConfigError("command line", word, "takes no value", f"write --{flag}")
            if flag in plugin_flags:
                options.own[flag] = value != "false"
            else:
                setattr(options, field, value != "false")
            continue
        if not equals:
            if not remaining:
                raise ConfigError("command line", f"--{flag}", "needs a value", f"write --{flag} {value_name}")
            value = remaining.pop(0)
        if flag in plugin_flags:
            options.own[flag] = [*_previous_values(options.own.get(flag)), value]
        else:
            setattr(options, field, _value(flag, value))
            if flag == "events":
                options.named_events = EventMask.parse_names(value)


def _previous_values(values: list[str] | bool | None) -> list[str]:
    return values if isinstance(values, list) else []


def _suggest(flag: str, flags: tuple[str, ...]) -> str:
    """Suggest a similar flag, or the help."""
    suggestion = nearest(flag, flags)
    return f"did you mean --{suggestion}?" if suggestion else "see --help"


def _value(flag: str, value: str) -> object:
    """Check and convert a flag's value."""
    if flag == "events":
        try:
            return EventMask.parse(value)
        except ValueError as error:
            raise ConfigError("command line", "--events", str(error)) from None
    if flag == "log-level" and value.lower() not in _LEVELS:
        raise ConfigError("command line", "--log-level", f"{value!r} is not a level", f"one of {', '.join(_LEVELS)}")
    if flag == "unsupported":
        _check_unsupported("command line", "--unsupported", value)
    if flag == "log-format" and value not in ("text", "json"):
        raise ConfigError("command line", "--log-format", f"{value!r} is not a format", "text or json")
    port = value.rpartition(":")[2]
    address = flag in ("health-addr", "metrics")
    if address and not (port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16):
        raise ConfigError("command line", f"--{flag}", f"{value!r} is not HOST:PORT", "for example 127.0.0.1:8080")
    return value.lower() if flag == "log-level" else value


def _check_unsupported(source: str, key: str, value: str) -> None:
    if value not in ("leave-out", "refuse"):
        raise ConfigError(source, key, f"{value!r} is not a choice", "leave-out or refuse")


def _read_environment(options: Options, environment: Mapping[str, str]) -> None:
    options.socket = options.socket or environment.get("NRI_SOCKET", "") or naming.DEFAULT_SOCKET
    options.check_messages = environment.get(naming.ENV_CHECK_MESSAGES, "0") not in ("", "0")
    variable = environment.get("NRI_UNSUPPORTED", "")
    if variable and not options.unsupported:
        _check_unsupported("environment", "NRI_UNSUPPORTED", variable)
        options.unsupported = variable
    text = environment.get(naming.ENV_SOCKET)
    if text is not None:
        if not text.isdigit():
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{text}")'
            raise ConfigError(
                "environment", naming.ENV_SOCKET, reason, "it must be the number of a descriptor, set by the runtime"
            )
        options.socket_fd = int(text)


def identify(
    options: Options,
    environment: Mapping[str, str],
    program: str,
    class_name: str,
    default_index: str = naming.DEFAULT_INDEX,
) -> None:
    """Set index and name, from flags, environment, a file name NN-name, or the defaults, in this order.

    Raises:
        ConfigError: index or name is invalid, or the file name begins with an incomplete index.
    """
    index = options.index or environment.get(naming.ENV_IDX, "")
    name = options.name or environment.get(naming.ENV_NAME, "")
    file = os.path.basename(program)
    source = naming.ENV_IDX if index and not options.index else "--idx"
    name_source = "--name" if options.name else naming.ENV_NAME if name else "name of the class"
    if not index and file[:2].isdecimal():
        source = f"file name {file}"
        try:
            index, from_file = naming.split_file_name(file)
        except ValueError as error:
            raise ConfigError("command line", source, str(error), "rename it to NN-name, or give --idx NN") from None
        if not name:
            name, name_source = from_file.removesuffix(".py"), source
    index = index or default_index
    name = name or class_name
    try:
        naming.check_index(index)
        source = name_source
        naming.check_name(name)
    except ValueError as error:
        raise ConfigError("command line", source, str(error)) from None
    options.index, options.name = index, name


def help_text(
    program: str,
    summary: str,
    plugin_flags: Mapping[str, tuple[str, str, str]] = _NO_FLAGS,
    module: str = "",
    *,
    indexed: bool = True,
) -> str:
    """The text of --help: examples, common flags, flags of the plugin.

    Args:
        program: the path of the program.
        summary: what the plugin does.
        plugin_flags: `Plugin.flags`.
        module: the module that was started with ``python -m``, or the module of a bundled plugin; else "".
        indexed: the plugin connects with the given index; otherwise a runtime cannot launch it.
    """
    name = os.path.basename(program)
    started, index = f"python {name}", " --idx 10" if indexed else ""
    if module:
        name = module.split(".")[2].replace("_", "-") if module.startswith("nri.plugins.") else module
        started = f"nri run {name}" if name != module else f"python -m {name}"
    lines = [
        f"{summary.strip()}\n" if summary else "",
        "Examples:",
        _example(f"{started}{index}", "run it as a separate process"),
        "" if module else _example(f"nri run {name}{index} --reload", "restart it whenever the file changes"),
        "" if name == module or not indexed else _example(f"nri enable {name}{index}", "let the runtime launch it"),
        "\nFlags (also with one dash):",
        *map(_flag_line, FLAGS.items()),
    ]
    if plugin_flags:
        lines += [
            "\nFlags of this plugin; they override its configuration file:",
            *map(_flag_line, plugin_flags.items()),
        ]
    lines.append(
        "\nExit codes: 0 stopped; 1 the plugin cannot work (refused by the runtime, its events);"
        "\n2 wrong usage or configuration; 3 no runtime; 130 Ctrl-C"
    )
    return "\n".join(line for line in lines if line) + "\n"


def _example(command: str, purpose: str) -> str:
    return f"  {command:40s} {purpose}"


def _flag_line(row: tuple[str, tuple[str, str, str]]) -> str:
    flag, (_, value_name, text) = row
    return f"  {f'--{flag} {value_name}'.strip():26s} {text}"
