"""Options of a plugin's program: flags, environment, file name. Parsed by hand: argparse costs 8 ms of a start.

Both `--idx 10` and `-idx 10` work, and both with `=`: manifests of Go plugins use one dash. Flag beats environment
beats file name beats class; an index that none of them gives is a default one. Flags of a plugin's own (`Plugin.flags`)
are collected as text; what they mean is asked with the rest of its configuration. Next: `nri.stub.program.start`, which
runs a plugin with them.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from nri.api import naming
from nri.api.events import EventMask
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FLAGS", "Flag", "Options", "help_text", "parse"]


class Flag(NamedTuple):
    """A flag of the command line, without its name.

    Attributes:
        field: the attribute that it sets: of `Options`, or of the plugin's `Config` for a flag of its own.
        value_name: the name of its value in the help; empty for a switch.
        help: what it does, in a few words.
    """

    field: str
    value_name: str
    help: str


#: The flags that every plugin has, by name.
FLAGS: dict[str, Flag] = {
    "idx": Flag("index", "NN", f"its place in the order of plugins, two digits (default {naming.DEFAULT_INDEX})"),
    "name": Flag("name", "NAME", "plugin name, if not the class's"),
    "socket-path": Flag("socket", "PATH", f"the runtime's socket (default {naming.DEFAULT_SOCKET}; env NRI_SOCKET)"),
    "config": Flag("config", "FILE", "configuration file; watched: a change calls configure() again"),
    "events": Flag("events", "LIST", "take only these events: all, pod, container, or names, comma-separated"),
    "no-reconnect": Flag("no_reconnect", "", "exit when the runtime is not there or goes away"),
    "log-level": Flag("log_level", "LEVEL", "debug, info, warning or error (default info)"),
    "log-format": Flag("log_format", "FORM", "text or json (default text)"),
    "log-file": Flag("log_file", "FILE", "log there instead of stderr"),
    "health-addr": Flag("health_addr", "HOST:PORT", "serve /healthz and /readyz on this address"),
    "metrics": Flag("metrics_addr", "HOST:PORT", "serve /metrics as well; may be the same address"),
    "verbose": Flag("verbose", "", "the same as --log-level debug"),
    "version": Flag("version", "", "print the versions and exit"),
    "help": Flag("help", "", "print this and exit"),
}
_ALIASES = {"h": "help", "v": "verbose", "socket": "socket-path", "i": "idx"}
_LEVELS = ("debug", "info", "warning", "error")


class Options:
    """The options of one run. `index` is "" until `identify` has found it."""

    __slots__ = (
        "check_messages", "config", "events", "health_addr", "help", "index", "log_file", "log_format", "log_level",
        "metrics_addr", "name", "named_events", "no_reconnect", "no_wait", "own", "registration_timeout_s", "socket",
        "socket_fd", "spare_names", "verbose", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.index = self.name = self.socket = ""
        #: A handler that changes the message it was given fails.
        self.check_messages = False
        self.config: str | None = None
        self.events: EventMask | None = None
        #: Those of `events` that are asked for by their names, and not as a group.
        self.named_events = EventMask(0)
        self.no_reconnect = self.verbose = self.version = self.help = False
        #: Give up if the runtime is not there at the start; later it is waited for. No flag: for `nri events -f`.
        self.no_wait = False
        self.log_level, self.log_format = "info", "text"
        self.log_file: str | None = None
        self.health_addr: str | None = None
        self.metrics_addr: str | None = None
        #: Names to try in turn if a live plugin has `name` already. No flag: for `nri events -f`.
        self.spare_names: list[str] = []
        #: Descriptor of a connection that the runtime has made already, or None.
        self.socket_fd: int | None = None
        self.registration_timeout_s = naming.REGISTRATION_TIMEOUT_S
        #: The plugin's own flags as they were given: name of the flag -> its values, or True or False for a switch.
        self.own: dict[str, list[str] | bool] = {}


_NONE: Mapping[str, tuple[str, str, str]] = {}


def parse(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    program: str,
    class_name: str,
    own: Mapping[str, tuple[str, str, str]] = _NONE,
    default_index: str = naming.DEFAULT_INDEX,
) -> Options:
    """Read flags and environment, and find out who we are.

    Args:
        arguments: the words of the command line, without the program.
        environment: that of the process.
        program: the path of the program; called NN-name, it gives both.
        class_name: the name of a plugin that nothing else names.
        own: the plugin's own flags (`Plugin.flags`).
        default_index: the index of a plugin that nothing gives one.

    Raises:
        ConfigError: names the flag or variable, and what to do.
    """
    options = Options()
    _read_flags(options, arguments, own)
    if options.help or options.version:
        return options
    if options.verbose:
        options.log_level = "debug"
    _read_environment(options, environment)
    identify(options, environment, program, class_name, default_index)
    return options


def _read_flags(options: Options, arguments: Sequence[str], own: Mapping[str, tuple[str, str, str]]) -> None:
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.lstrip("-").partition("=")
        flag = flag if flag in own else _ALIASES.get(flag, flag)
        found = own.get(flag) or FLAGS.get(flag)
        if not word.startswith("-") or found is None:
            raise ConfigError("command line", word, "unknown argument", _suggest(flag, (*own, *FLAGS)))
        field, value_name, _ = found
        if not value_name:
            if equals and value not in ("true", "false"):
                raise ConfigError("command line", word, "takes no value", f"write --{flag}")
            if flag in own:
                options.own[flag] = value != "false"
            else:
                setattr(options, field, value != "false")
            continue
        if not equals:
            if not rest:
                raise ConfigError("command line", f"--{flag}", "needs a value", f"write --{flag} {value_name}")
            value = rest.pop(0)
        if flag in own:
            options.own[flag] = [*_given(options.own.get(flag)), value]
        else:
            setattr(options, field, _value(flag, value))
            if flag == "events":
                options.named_events = EventMask.parse_names(value)


def _given(values: list[str] | bool | None) -> list[str]:
    return values if isinstance(values, list) else []


def _suggest(flag: str, known: tuple[str, ...]) -> str:
    """Name the flag that was meant, else the help."""
    import difflib

    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(flag.lower(), names, 1, 0.7)
    return f"did you mean --{names[near[0]]}?" if near else "see --help"


def _value(flag: str, value: str) -> object:
    """Check one flag's value."""
    if flag == "events":
        try:
            return EventMask.parse(value)
        except ValueError as error:
            raise ConfigError("command line", "--events", str(error)) from None
    if flag == "log-level" and value.lower() not in _LEVELS:
        raise ConfigError("command line", "--log-level", f"{value!r} is not a level", f"one of {', '.join(_LEVELS)}")
    if flag == "log-format" and value not in ("text", "json"):
        raise ConfigError("command line", "--log-format", f"{value!r} is not a format", "text or json")
    port = value.rpartition(":")[2]
    address = flag in ("health-addr", "metrics")
    if address and not (port.isascii() and port.isdecimal() and int(port[:6]) < 1 << 16):
        raise ConfigError("command line", f"--{flag}", f"{value!r} is not HOST:PORT", "for example 127.0.0.1:8080")
    return value.lower() if flag == "log-level" else value


def _read_environment(options: Options, environment: Mapping[str, str]) -> None:
    options.socket = options.socket or environment.get("NRI_SOCKET", "") or naming.DEFAULT_SOCKET
    options.check_messages = environment.get(naming.ENV_CHECK_MESSAGES, "0") not in ("", "0")
    text = environment.get(naming.ENV_SOCKET)
    if text is not None:
        if not text.isdigit():
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{text}")'
            raise ConfigError(
                "environment", naming.ENV_SOCKET, reason, "it is the number of a descriptor, set by the runtime"
            )
        options.socket_fd = int(text)


def identify(
    options: Options,
    environment: Mapping[str, str],
    program: str,
    class_name: str,
    default_index: str = naming.DEFAULT_INDEX,
) -> None:
    """Find index and name: flags, environment, a program called NN-name, the class and the default.

    Raises:
        ConfigError: index or name has a form that no runtime takes, or the program's name begins with half an index.
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
            raise ConfigError("command line", source, str(error), "call it NN-name, or give --idx NN") from None
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
    own: Mapping[str, tuple[str, str, str]] = _NONE,
    module: str = "",
    *,
    indexed: bool = True,
) -> str:
    """The text of --help: examples first, then common flags, then the plugin's own.

    Args:
        program: path of the program.
        summary: what the plugin does.
        own: `Plugin.flags`.
        module: the module that was started with ``python -m``, if it was; a bundled plugin is found by its name.
        indexed: it connects at the index that it is given; if not, a runtime cannot start it.
    """
    name = os.path.basename(program)
    started, index = f"python {name}", " --idx 10" if indexed else ""
    if module:
        name = module.split(".")[2].replace("_", "-") if module.startswith("nri.plugins.") else module
        started = f"nri run {name}" if name != module else f"python -m {name}"
    lines = [
        f"{summary.strip()}\n" if summary else "",
        "Examples:",
        _example(f"{started}{index}", "run it beside a runtime"),
        "" if module else _example(f"nri run {name}{index} --reload", "the same, again whenever the file changes"),
        "" if name == module or not indexed else _example(f"nri enable {name}{index}", "let the runtime start it"),
        "\nFlags (one dash works too):",
        *map(_flag_line, FLAGS.items()),
    ]
    if own:
        lines += ["\nFlags of this plugin; they come before its configuration file:", *map(_flag_line, own.items())]
    lines.append(
        "\nExit codes: 0 stopped, 1 it cannot work as it is (refused by the runtime, its configuration, its events),"
        "\n2 wrong usage, 3 no runtime, 130 Ctrl-C"
    )
    return "\n".join(line for line in lines if line) + "\n"


def _example(command: str, purpose: str) -> str:
    return f"  {command:40s} {purpose}"


def _flag_line(row: tuple[str, tuple[str, str, str]]) -> str:
    flag, (_, value_name, text) = row
    return f"  {f'--{flag} {value_name}'.strip():26s} {text}"
