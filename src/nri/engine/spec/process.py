"""The process of a container: its command line, environment, working directory, terminal, and signal to stop it.

What the request says comes before what the image says. `command` replaces the image's entry point and command
both, `args` its command alone, as in Kubernetes.
"""

from __future__ import annotations

import re
import signal

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import ImageConfig
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

#: The PATH of a container if neither image nor request has one.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NUMBER = re.compile(r"[0-9]{1,2}")
_FIRST_REAL_TIME, _LAST_REAL_TIME = 34, 64  # as glibc counts, which keeps the first two for itself


def args(config: pb.ContainerConfig, image: ImageConfig) -> list[str]:
    """The command line.

    Raises:
        RequestError: neither the request nor the image says what to run, or a word cannot be handed to a program.
    """
    # Some images have an entry point of one empty word, which is none.
    entrypoint = image.entrypoint if image.entrypoint and image.entrypoint[0] else ()
    made = [*config.command, *config.args] if config.command else [*entrypoint, *(config.args or image.cmd)]
    if not made or not made[0]:
        raise RequestError("command", "", f"neither it nor image {image_name(config)} says what to run")
    for word in made:
        _no_nul("command" if config.command else "args", word)
    return made


def environment(config: pb.ContainerConfig, image: ImageConfig, hostname: str = "") -> list[str]:
    """The environment: the image's, and the request's over it, each name once, in the order of first mention.

    Raises:
        RequestError: a name is empty or has a ``=``, or a value is not UTF-8, which config.json is.
    """
    made = {"PATH": PATH}
    if config.tty:
        made["TERM"] = "xterm"
    if hostname:
        made["HOSTNAME"] = hostname
    for entry in image.env:
        name, _, value = entry.partition("=")
        if name:
            made[name] = value
    for index, variable in enumerate(config.envs):
        field = f"envs[{index}]"
        if not variable.key or "=" in variable.key:
            raise RequestError(f"{field}.key", variable.key, "is not the name of a variable")
        try:
            made[variable.key] = variable.value.decode()
        except UnicodeDecodeError:
            raise RequestError(f"{field}.value", variable.value, "is not UTF-8") from None
    for name, value in made.items():
        _no_nul("envs", f"{name}={value}")
    return [f"{name}={value}" for name, value in made.items()]


def cwd(config: pb.ContainerConfig, image: ImageConfig) -> str:
    """The working directory. RequestError: it must be an absolute path."""
    made = config.working_dir or image.working_dir or "/"
    if not made.startswith("/"):
        where = "working_dir" if config.working_dir else f"the working directory of image {image_name(config)}"
        raise RequestError(where, made, "must be an absolute path")
    check_path("working_dir", made)
    return made


def stop_signal(config: pb.ContainerConfig, image: ImageConfig) -> int:
    """The number of the signal that asks the container to stop: the request's, the image's, or SIGTERM.

    Raises:
        RequestError: no such signal.
    """
    if config.stop_signal != pb.SIGNAL_RUNTIME_DEFAULT:
        try:
            name = pb.Signal.Name(config.stop_signal).removeprefix("SIGNAL_")
        except ValueError:
            raise RequestError("stop_signal", config.stop_signal, "is no signal") from None
        return _signal(name, "stop_signal")
    return _signal(image.stop_signal or "SIGTERM", f"the stop signal of image {image_name(config)}")


def _signal(text: str, field: str) -> int:
    """A signal's number, of ``SIGTERM``, ``TERM``, ``15``, ``SIGRTMIN+3`` or ``SIGRTMINPLUS3``."""
    if _NUMBER.fullmatch(text) and 0 < int(text) <= _LAST_REAL_TIME:
        return int(text)
    name = text.upper().removeprefix("SIG").replace("PLUS", "+").replace("MINUS", "-")
    base, sign, count = name.partition("+") if "+" in name else name.partition("-")
    if base in ("RTMIN", "RTMAX") and (not sign or _NUMBER.fullmatch(count)):
        number = (_FIRST_REAL_TIME if base == "RTMIN" else _LAST_REAL_TIME) + int(f"{sign}{count}" or 0)
        if _FIRST_REAL_TIME <= number <= _LAST_REAL_TIME:
            return number
    known = {each.name.removeprefix("SIG"): int(each) for each in signal.Signals}
    known |= {"CLD": signal.SIGCHLD, "IOT": signal.SIGABRT, "POLL": signal.SIGIO, "STKFLT": 16}
    if name not in known or sign:
        raise RequestError(field, text, "is no signal")
    return int(known[name])


def _no_nul(field: str, text: str) -> None:
    if "\0" in text:
        raise RequestError(field, text, "has a zero byte in it")


def image_name(config: pb.ContainerConfig) -> str:
    """The name of a request's image, for errors."""
    return config.image.user_specified_image or config.image.image or "(without a name)"
