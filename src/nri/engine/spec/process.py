"""A container's process: command line, environment, working directory, and stop signal.

The request overrides the image. As in Kubernetes, `command` replaces the image's entry point and its command, and
`args` replaces only the image's command.
"""

from __future__ import annotations

import functools
import posixpath
import re
import signal
from collections.abc import Mapping, Sequence

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import ImageConfig
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

#: The PATH of a container if neither image nor request has one.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NUMBER = re.compile(r"[0-9]{1,2}")
_FIRST_REAL_TIME, _LAST_REAL_TIME = 34, 64  # as in glibc, which reserves the first two


def args(config: pb.ContainerConfig, image: ImageConfig) -> list[str]:
    """Return the command line.

    Raises:
        RequestError: neither the request nor the image has a command, or an argument contains a zero byte.
    """
    # The entry point of some images is one empty string, which means that there is no entry point.
    entrypoint = image.entrypoint if image.entrypoint and image.entrypoint[0] else ()
    command_line = [*config.command, *config.args] if config.command else [*entrypoint, *(config.args or image.cmd)]
    if not command_line or not command_line[0]:
        raise RequestError("command", "", f"is required, because image {image_name(config)} has no command")
    for word in command_line:
        _check_no_zero_byte("command" if config.command else "args", word)
    return command_line


def environment(
    config: pb.ContainerConfig, image: ImageConfig, hostname: str = "", default: Sequence[str] = ()
) -> list[str]:
    """Return the environment: `default`, overridden by the image's variables, and these by the request's.

    Raises:
        RequestError: a name is empty, or a value is not UTF-8, as config.json has to be.
    """
    variables = {"PATH": PATH}
    if config.tty:
        variables["TERM"] = "xterm"
    if hostname:
        variables["HOSTNAME"] = hostname
    for entry in (*default, *image.env):
        name, _, value = entry.partition("=")
        if name:
            variables[name] = value
    for index, variable in enumerate(config.envs):
        field = f"envs[{index}]"
        try:
            name, _, value = f"{variable.key}={variable.value.decode()}".partition("=")  # containerd allows "=" in keys
        except UnicodeDecodeError:
            raise RequestError(f"{field}.value", variable.value, "is not UTF-8") from None
        if not name:
            raise RequestError(f"{field}.key", variable.key, "is not a valid name of a variable")
        variables[name] = value
    for name, value in variables.items():
        _check_no_zero_byte("envs", f"{name}={value}")
    return [f"{name}={value}" for name, value in variables.items()]


def cwd(config: pb.ContainerConfig, image: ImageConfig) -> str:
    """Return the working directory. A relative path starts at the container's root.

    Raises RequestError if the path is invalid.
    """
    path = config.working_dir or image.working_dir
    check_path("working_dir", path)
    return posixpath.join("/", path)


def stop_signal(config: pb.ContainerConfig, image: ImageConfig) -> int:
    """Return the number of the stop signal: the request's, otherwise the image's, otherwise SIGTERM.

    Raises:
        RequestError: there is no such signal.
    """
    if config.stop_signal != pb.SIGNAL_RUNTIME_DEFAULT:
        try:
            name = pb.Signal.Name(config.stop_signal).removeprefix("SIGNAL_")
        except ValueError:
            raise RequestError("stop_signal", config.stop_signal, "is not a signal") from None
        return _signal(name, "stop_signal")
    return _signal(image.stop_signal or "SIGTERM", f"the stop signal of image {image_name(config)}")


#: The annotation with which plugins set the stop signal, as image specifications name it.
STOP_SIGNAL = "org.opencontainers.image.stopSignal"


def adjusted_signal(config: pb.ContainerConfig, annotations: Mapping[str, str], number: str) -> str:
    """Return the stop signal's number: the request's signal, otherwise the signal in the annotations from plugins.

    Raises:
        RequestError: there is no such signal.
    """
    text = annotations.get(STOP_SIGNAL, "")
    if not text or config.stop_signal != pb.SIGNAL_RUNTIME_DEFAULT:
        return number
    return str(_signal(text, f'annotations["{STOP_SIGNAL}"]'))


def effective_signal(config: pb.ContainerConfig, number: str) -> pb.Signal.ValueType:
    """Return the CRI's value of the stop signal: the request's, otherwise that of `number`, or 0 if it is unknown."""
    return config.stop_signal or _signals().get(number, pb.SIGNAL_RUNTIME_DEFAULT)


@functools.cache
def _signals() -> dict[str, pb.Signal.ValueType]:
    """Return the CRI's signals by their numbers in records. If two names have the same number, the first is used."""
    names = [name for name in pb.Signal.keys() if name != "SIGNAL_RUNTIME_DEFAULT"]  # noqa: SIM118  not a mapping
    return {str(_signal(name.removeprefix("SIGNAL_"), "")): pb.Signal.Value(name) for name in reversed(names)}


def _signal(text: str, field: str) -> int:
    """Return the number of a signal such as ``SIGTERM``, ``TERM``, ``15``, ``SIGRTMIN+3`` or ``SIGRTMINPLUS3``."""
    if _NUMBER.fullmatch(text) and 0 < int(text) <= _LAST_REAL_TIME:
        return int(text)
    name = text.upper().removeprefix("SIG").replace("PLUS", "+").replace("MINUS", "-")
    base, sign, count = name.partition("+") if "+" in name else name.partition("-")
    if base in ("RTMIN", "RTMAX") and (not sign or _NUMBER.fullmatch(count)):
        number = (_FIRST_REAL_TIME if base == "RTMIN" else _LAST_REAL_TIME) + int(f"{sign}{count}" or 0)
        if _FIRST_REAL_TIME <= number <= _LAST_REAL_TIME:
            return number
    numbers = {entry.name.removeprefix("SIG"): int(entry) for entry in signal.Signals}
    numbers |= {"CLD": signal.SIGCHLD, "IOT": signal.SIGABRT, "POLL": signal.SIGIO, "STKFLT": 16}
    if name not in numbers or sign:
        raise RequestError(field, text, "is not a signal")
    return int(numbers[name])


def _check_no_zero_byte(field: str, text: str) -> None:
    if "\0" in text:
        raise RequestError(field, text, "contains a zero byte")


def image_name(config: pb.ContainerConfig) -> str:
    """Return the name of the requested image, for errors."""
    return config.image.user_specified_image or config.image.image or "(without a name)"
