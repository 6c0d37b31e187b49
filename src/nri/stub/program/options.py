"""Options of a plugin's program: flags, environment, file name. Parsed by hand: argparse costs 8 ms of a start.

Both `--idx 10` and `-idx 10` work, and both with `=`: manifests of Go plugins use one dash. Flag beats environment
beats file name beats class. Next: `nri.stub.program.start`, which runs a plugin with them.
"""

from __future__ import annotations

import os

from nri.api import naming
from nri.api.events import EventMask
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FLAGS", "Options", "help_text", "parse"]

#: flag -> (attribute, what its value is called, help). An empty value name: a switch.
FLAGS: dict[str, tuple[str, str, str]] = {
    "idx": ("index", "NN", "plugin index, two digits: its place in the order of plugins"),
    "name": ("name", "NAME", "plugin name, if not the class's"),
    "socket-path": ("socket", "PATH", f"the runtime's NRI socket (default {naming.DEFAULT_SOCKET}; env NRI_SOCKET)"),
    "config": ("config", "FILE", "configuration file; watched: a change calls configure() again"),
    "events": ("events", "LIST", "take only these events: all, pod, container, or names, comma-separated"),
    "no-reconnect": ("no_reconnect", "", "exit when the runtime is not there or goes away"),
    "log-level": ("log_level", "LEVEL", "debug, info, warning or error (default info)"),
    "log-format": ("log_format", "FORM", "text or json (default text)"),
    "log-file": ("log_file", "FILE", "log there instead of stderr"),
    "health-addr": ("health_addr", "HOST:PORT", "serve /healthz and /readyz there"),
    "verbose": ("verbose", "", "the same as --log-level debug"),
    "version": ("version", "", "print the versions and exit"),
    "help": ("help", "", "print this and exit"),
}
_ALIASES = {"h": "help", "v": "verbose", "socket": "socket-path", "i": "idx"}
_LEVELS = ("debug", "info", "warning", "error")


class Options:
    """The options of one run. `index` is "" until `identify` has found it."""

    __slots__ = (
        "config", "events", "health_addr", "help", "index", "log_file", "log_format", "log_level", "name",
        "no_reconnect", "no_wait", "registration_timeout_s", "socket", "socket_fd", "verbose", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.index = self.name = self.socket = ""
        self.config: str | None = None
        self.events: EventMask | None = None
        self.no_reconnect = self.verbose = self.version = self.help = False
        #: Give up if the runtime is not there at the start; later it is waited for. No flag: for `nri events -f`.
        self.no_wait = False
        self.log_level, self.log_format = "info", "text"
        self.log_file: str | None = None
        self.health_addr: str | None = None
        #: Descriptor of a connection that the runtime has made already, or None.
        self.socket_fd: int | None = None
        self.registration_timeout_s = naming.REGISTRATION_TIMEOUT_S


def parse(arguments: Sequence[str], environment: Mapping[str, str], program: str, class_name: str) -> Options:
    """Read flags and environment, and find out who we are.

    Raises:
        ConfigError: names the flag or variable, and what to do.
    """
    options = Options()
    _read_flags(options, arguments)
    if options.help or options.version:
        return options
    if options.verbose:
        options.log_level = "debug"
    _read_environment(options, environment)
    identify(options, environment, program, class_name)
    return options


def _read_flags(options: Options, arguments: Sequence[str]) -> None:
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.lstrip("-").partition("=")
        flag = _ALIASES.get(flag, flag)
        if not word.startswith("-") or flag not in FLAGS:
            raise ConfigError("command line", word, "unknown argument", "see --help")
        attribute, value_name, _ = FLAGS[flag]
        if not value_name:
            if equals and value not in ("true", "false"):
                raise ConfigError("command line", word, "takes no value", f"write --{flag}")
            setattr(options, attribute, value != "false")
            continue
        if not equals:
            if not rest:
                raise ConfigError("command line", f"--{flag}", "needs a value", f"write --{flag} {value_name}")
            value = rest.pop(0)
        setattr(options, attribute, _value(flag, value))


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
    if flag == "health-addr" and not value.rpartition(":")[2].isdigit():
        raise ConfigError("command line", "--health-addr", f"{value!r} is not HOST:PORT", "for example 127.0.0.1:8080")
    return value.lower() if flag == "log-level" else value


def _read_environment(options: Options, environment: Mapping[str, str]) -> None:
    options.socket = options.socket or environment.get("NRI_SOCKET", "") or naming.DEFAULT_SOCKET
    text = environment.get(naming.ENV_SOCKET)
    if text is not None:
        if not text.isdigit():
            reason = f'invalid socket in environment ({naming.ENV_SOCKET}="{text}")'
            raise ConfigError(
                "environment", naming.ENV_SOCKET, reason, "it is the number of a descriptor, set by the runtime"
            )
        options.socket_fd = int(text)


def identify(options: Options, environment: Mapping[str, str], program: str, class_name: str) -> None:
    """Find index and name: flags, environment, a program called NN-name, the class.

    Raises:
        ConfigError: there is no index, or index or name has a form that no runtime takes.
    """
    index = options.index or environment.get(naming.ENV_IDX, "")
    name = options.name or environment.get(naming.ENV_NAME, "")
    source = "--idx" if options.index else naming.ENV_IDX
    if not index:
        source = f"file name {os.path.basename(program)}"
        try:
            index, from_file = naming.split_file_name(os.path.basename(program))
        except ValueError:
            reason = "the plugin has no index"
            raise ConfigError("command line", "--idx", reason, "give --idx NN, two digits, such as --idx 10") from None
        name = name or from_file.removesuffix(".py")
    name = name or class_name
    try:
        naming.check_index(index)
        naming.check_name(name)
    except ValueError as error:
        raise ConfigError("command line", source, str(error)) from None
    options.index, options.name = index, name


def help_text(program: str, summary: str) -> str:
    """The text of --help: examples first."""
    name = os.path.basename(program)
    lines = [
        f"{summary.strip()}\n" if summary else "",
        f"Examples:\n  python {name} --idx 10                    run it beside a runtime",
        f"  nri run {name} --idx 10 --reload         the same, again whenever the file changes",
        f"  nri enable {name} --idx 10                 let the runtime start it\n",
        "Flags (one dash works too):",
    ]
    for flag, (_, value_name, text) in FLAGS.items():
        lines.append(f"  {f'--{flag} {value_name}'.strip():26s} {text}")
    lines.append(
        "\nExit codes: 0 stopped, 1 it cannot work as it is (refused by the runtime, its configuration, its events),"
        "\n2 wrong usage, 3 no runtime, 130 Ctrl-C"
    )
    return "\n".join(line for line in lines if line) + "\n"
