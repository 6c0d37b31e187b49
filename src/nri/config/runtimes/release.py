"""Find the release of a runtime on a node, from the running daemon, its program, or the installed package.

A running daemon also shows which configuration file it was started with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from nri.config.root import resolve_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.config.runtimes.runtime import Runtime

#: The text database of packages installed by dpkg.
_DPKG = "/var/lib/dpkg/status"
#: The text database of packages installed by apk.
_APK = "/lib/apk/db/installed"


#: The longest command line of a daemon that is read, in bytes.
_MAX_COMMAND_LINE_BYTES = 1 << 16


class Daemon(NamedTuple):
    """A running daemon.

    Attributes:
        program: a path of its program that also works after an update.
        arguments: its command line, without the program.
    """

    program: str
    arguments: tuple[str, ...]


class Release(NamedTuple):
    """A release, and its source."""

    version: str
    where: str


def find_release(root: str, runtime: Runtime, programs: Sequence[str] = (), timeout_s: float = 5.0) -> Release:
    """Find the release of a runtime below `root`, without running programs of another root.

    `programs` are tried before the running daemons and the PATH. Both fields are "" if the release is not found.
    """
    if root == "/" and runtime.release is not None:
        on_path = shutil.which(runtime.program)
        running_programs = (daemon.program for daemon in running_daemons(runtime.program))
        for program in (*programs, *running_programs, *([on_path] if on_path else ())):
            version = runtime.release(_version_output(program, timeout_s))
            if version:
                return Release(version, program)
    return _package_release(root, runtime.packages)


def daemon_config(root: str, runtime: Runtime) -> str:
    """Return the path of the configuration file that a running daemon was started with, by its command line.

    Returns "" if no daemon runs in this root, if the daemon uses the default file, or if its path is relative.
    """
    for daemon in running_daemons(runtime.program) if root == "/" else ():
        for number, argument in enumerate(daemon.arguments):
            flag, equals, path = argument.partition("=")
            if flag in runtime.config_flags:
                path = path if equals else next(iter(daemon.arguments[number + 1 :]), "")
                return path if path.startswith("/") else ""
    return ""


def running_daemons(program: str) -> Iterator[Daemon]:
    """Generate the running daemons with this name that belong to root or to the caller.

    Any user can give a process this name, and the caller, often root, runs the program.
    """
    try:
        processes = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return
    for process in processes:
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            if name != program or os.stat(f"/proc/{process}").st_uid not in (0, os.geteuid()):
                continue
            if os.readlink(f"/proc/{process}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
                continue
            with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
                command = file.read(_MAX_COMMAND_LINE_BYTES).rstrip("\0").split("\0")
            yield Daemon(f"/proc/{process}/exe", tuple(command[1:]))
        except OSError:  # the process has ended, or belongs to another user
            continue


def _version_output(program: str, timeout_s: float) -> str:
    try:
        process = subprocess.run(  # noqa: S603 - the runtime, without a shell
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout


def _package_release(root: str, packages: Sequence[str]) -> Release:
    """Look up a package in the databases of dpkg and apk."""
    for database, name_key, version_key in ((_DPKG, "Package: ", "Version: "), (_APK, "P:", "V:")):
        try:
            with open(resolve_below(root, database), encoding="utf-8", errors="replace") as file:
                paragraphs = file.read().split("\n\n")
        except OSError:
            continue
        for paragraph in paragraphs:
            fields = paragraph.splitlines()
            if not any(f"{name_key}{package}" in fields for package in packages) or "deinstall" in paragraph:
                continue
            version = next((line.removeprefix(version_key) for line in fields if line.startswith(version_key)), "")
            if re.match(r"(?:\d+:)?\d+\.\d", version):
                return Release(version.rpartition(":")[2], database)
    return Release("", "")
