"""Turn NRI on in a runtime's configuration, set timeouts, and restart the runtime on request.

An operator's file changes only in the keys of NRI. Its old content is kept once next to it, and put back if the runtime
would read other values than the requested ones. Files and programs are those below a root folder.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.duration import parse_duration
from nri.config.root import inside
from nri.config.runtimes.patch import patched
from nri.config.runtimes.reading import Kind
from nri.config.runtimes.registry import RUNTIMES
from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError, NriError
from nri.files import read_regular, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.config.runtimes.reading import Reading
    from nri.config.runtimes.runtime import ManagedFile, Runtime

__all__ = [
    "MANAGED",
    "Change",
    "Timeouts",
    "apply",
    "check_unit",
    "detect",
    "plan",
    "restart",
    "restore",
    "unified",
]

#: The runtimes that can be changed, by the names of their programs.
MANAGED: dict[str, Runtime] = {row.program: row for row in RUNTIMES if row.managed_file is not None}
#: Added to the name of an operator's file for its old content.
KEPT = ".before-nri"
MOST_BYTES = 1 << 20
#: Mistakes with which the runtime does not start, in whichever of its files they are.
FATAL = {Kind.UNREADABLE, Kind.INVALID, Kind.NO_TABLE, Kind.MISSING_IMPORT, Kind.WRONG_TYPE, Kind.NO_DURATION}
PATIENCE_S = 90.0
#: Or systemctl, below another root, says that it ignores what it was told, and ends as if it had done it.
_CHROOT = {"SYSTEMD_IGNORE_CHROOT": "1"}


class Timeouts(NamedTuple):
    """How long a plugin may take, as Go writes durations; both or neither."""

    registration: str = ""
    request: str = ""

    def check(self) -> None:
        """Raise ConfigError for what no runtime should be given."""
        seconds = []
        for name, text in zip(("registration", "request"), self, strict=True):
            flag = f"--nri-plugin-{name}-timeout"
            if bool(self.registration) != bool(self.request):
                raise ConfigError("command line", flag, "one timeout without the other", "give both")
            try:
                seconds.append(parse_duration(text) if text else 0.0)
            except ValueError as error:
                raise ConfigError("command line", flag, str(error)) from None
        if self.registration and not 0 < seconds[1] < seconds[0]:
            reason = f"{self.registration} must be longer than the request timeout, {self.request}, and that above 0"
            raise ConfigError("command line", "--nri-plugin-registration-timeout", reason)


class Change(NamedTuple):
    """A file as it will be.

    Attributes:
        runtime: the runtime that reads it.
        file: the file, with the path that is written.
        before: its content, or None if it does not exist.
        after: its new content.
        read: reads all files of the runtime.
    """

    runtime: Runtime
    file: ManagedFile
    before: str | None
    after: str
    read: Callable[[], Reading]


def plan(root: str, program: str, timeouts: Timeouts, path: str = "") -> Change:
    """Plan the change for the runtime with this program. Raises ConfigError for a file that cannot be changed.

    `path` is the runtime's own file, if it is elsewhere.
    """
    timeouts.check()
    runtime = MANAGED[program]
    assert runtime.managed_file is not None
    file = runtime.managed_file._replace(path=path) if path else runtime.managed_file
    release = _release(root, runtime)
    values: dict[str, bool | str] = {runtime.keys["enabled"]: runtime.enabled_value}
    if timeouts.request:
        values[runtime.keys["registration_timeout_s"]] = timeouts.registration
        values[runtime.keys["request_timeout_s"]] = timeouts.request
    before = _text(root, file.path)
    text = file.new_text if before is None else before
    table = file.table(parse_text(Source(file.path, text, "toml")), release, file.path)
    return Change(
        runtime, file, before, patched(text, table, values, file.path), lambda: runtime.read(root, release, path)
    )


def apply(root: str, change: Change, timeouts: Timeouts) -> str:
    """Write a change, keep what was there, and see that it counts; returns where the old file is kept, or "".

    Raises:
        NriError: a later file says something else, or cannot be read, and all is as it was.
        OSError: it cannot be written.
    """
    path, kept = _place(root, change.file.path), ""
    mode, owner = _mode_and_owner(path) if change.before is not None else (0o644, None)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if change.before is not None and change.file.is_operators and not os.path.lexists(path + KEPT):
        write_whole(path + KEPT, change.before.encode(), mode, owner=owner)
        kept = path + KEPT
    write_whole(path, change.after.encode(), mode, owner=owner)
    reading = change.read()
    for remark in reading.remarks:
        if remark.kind in FATAL:
            restore(root, change)
            raise NriError(
                f"{change.file.path}: taken back, for the runtime would not start: {remark}; mend that first"
            )
    found = reading.nri
    wanted: list[tuple[str, object]] = [("enabled", True)]
    if timeouts.request:
        wanted += [("registration_timeout_s", parse_duration(timeouts.registration)),
                   ("request_timeout_s", parse_duration(timeouts.request))]  # fmt: skip
    for name, value in wanted:
        if found is None or getattr(found, name) != value:
            restore(root, change)
            key = change.runtime.keys[name]
            where = (found.origin.get(key) if found else "") or f"its default of {key}"
            raise NriError(f"{change.file.path}: without effect, and taken back: {where} counts; change it there")
    return kept


def restore(root: str, change: Change) -> None:
    """Put back what was there before a change, and keep no copy of that beside it."""
    path = _place(root, change.file.path)
    if change.before is None:
        os.unlink(path)
    else:
        mode, owner = _mode_and_owner(path)
        write_whole(path, change.before.encode(), mode, owner=owner)
        with suppress(OSError, ConfigError):  # what is no text is not what was there before
            if change.file.is_operators and _text(root, change.file.path + KEPT) == change.before:
                os.unlink(path + KEPT)  # or it would be taken for what was there before a later change


def _mode_and_owner(path: str) -> tuple[int, tuple[int, int]]:
    """The mode of a file, and the numbers of its user and group."""
    status = os.stat(path)
    return status.st_mode & 0o7777, (status.st_uid, status.st_gid)


def unified(change: Change) -> str:
    """The difference that a change makes, as `diff -u` shows it; "" for none."""
    before, after = ((text or "").splitlines(keepends=True) for text in (change.before, change.after))
    old = "/dev/null" if change.before is None else change.file.path
    return "".join(
        line if line.endswith("\n") else f"{line}\n"
        for line in difflib.unified_diff(before, after, old, change.file.path)
    )


def detect(root: str) -> str:
    """The program of the one runtime that runs below a root, or else is installed there. NriError if it is not one."""
    names = [name for name, row in MANAGED.items() if _run(root, "systemctl", "is-active", row.unit, silent=True) == 0]
    if not names:
        names = [
            name
            for name, row in MANAGED.items()
            if any(os.path.exists(inside(root, path)) for path in row.installed_paths)
        ]
    if len(names) != 1:
        titles = " nor ".join(row.title for row in MANAGED.values())
        reason = f"there are two runtimes, {' and '.join(names)}" if names else f"there is neither {titles}"
        raise NriError(f"{reason} below {root}; name one: {', or '.join(f'--runtime {name}' for name in MANAGED)}")
    return names[0]


def check_unit(root: str, program: str) -> None:
    """Raise NriError where systemd could not restart a runtime: it has no unit of it, or does not answer."""
    unit = MANAGED[program].unit
    try:
        done = _call(root, "systemctl", "show", "--property=LoadState", "--value", unit, capture_output=True)
        state, complaint = done.stdout.strip(), "; ".join(done.stderr.split("\n")).strip("; ")
    except (OSError, subprocess.TimeoutExpired) as error:
        state, complaint = "", str(error)
    if state == "loaded":
        return
    reason = f"systemd reports that {unit} is {state}" if state else f"systemctl failed: {complaint}"
    # It does not talk to a systemd that it does not see.
    pod = "" if state or root == "/" else "in a pod, set hostPID: true; or "
    raise NriError(
        f"{program} could not be restarted, so nothing is changed: {reason}; {pod}leave out --restart, and restart it"
        " yourself"
    )


def restart(root: str, change: Change) -> None:
    """Restart a runtime's unit. NriError if systemd does not: then the change is taken back, and the unit started.

    Otherwise a second run would find nothing to change and restart nothing, and the node would have no runtime.
    """
    unit = change.runtime.unit
    words = ("systemctl", "restart", unit)
    code = _run(root, *words)
    if code:
        restore(root, change)
        again = f"it was started with that; journalctl -u {unit} shows why"
        if _run(root, *words):
            again = f"it does not start with that either: see journalctl -u {unit}"
        raise NriError(f"{' '.join(words)} failed with {code}; the configuration is as it was, and {again}")


def _text(root: str, path: str) -> str | None:
    """A file's text; None if there is none. ConfigError if it cannot be read."""
    try:
        return read_regular(_place(root, path), MOST_BYTES, follow=False).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = "holds bytes that are not text" if isinstance(error, UnicodeDecodeError) else error.strerror or ""
        raise ConfigError(path, "", f"cannot be read: {reason}") from None


def _place(root: str, path: str) -> str:
    """Where a file of the node is, seen from here; a link is followed, and never out of the root."""
    place = inside(root, path)
    return os.path.realpath(place) if root == "/" else place


def _release(root: str, runtime: Runtime) -> str:
    """The release of the runtime below a root; "" if it is not known or no rule depends on it."""
    if runtime.release is None:
        return ""
    try:
        return runtime.release(_call(root, runtime.program, "--version", capture_output=True).stdout)
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _run(root: str, *words: str, silent: bool = False) -> int:
    """The exit code of a program of the node, whose words go to standard error; 127 if there is none."""
    out = subprocess.DEVNULL if silent else 2
    try:
        return _call(root, *words, stdout=out, stderr=out).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127


def _call(root: str, *words: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of the node. Raises OSError, TimeoutExpired."""
    return subprocess.run(  # noqa: S603 - systemctl and the runtime, without a shell
        words if root == "/" else ("chroot", root, *words),
        timeout=PATIENCE_S, check=False, text=True, errors="replace", env=os.environ | _CHROOT, **streams,
    )  # fmt: skip
