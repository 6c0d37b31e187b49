"""Turn NRI on in the configuration of containerd or CRI-O, with timeouts, and restart the runtime if that is wanted.

Rules: the operator's file stays as it is but for the keys of NRI; it is kept once beside itself, written whole, and put
back if the runtime would read something else than was wanted. Everything is below a root folder, in which programs of
the node are run as well. `nri.config.runtimes` reads, and `patch` there changes a text.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.duration import parse_duration
from nri.config.root import inside
from nri.config.runtimes import containerd, crio
from nri.config.runtimes.patch import lines_of, patched
from nri.config.runtimes.reading import Kind
from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError, NriError
from nri.files import read_regular, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.config.runtimes.reading import Reading

__all__ = [
    "CRIO_FILE",
    "UNITS",
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

#: Runtime -> the unit that systemd has for it.
UNITS = {"containerd": "containerd.service", "crio": "crio.service"}
CRIO_FILE = f"{crio.DROP_INS}/10-enable-nri.conf"
#: The name of the operator's file as it was, after the file's own. CRI-O reads every name in its folder.
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
    """A file as it is to be; `before` is None if there is none. `read` gives what the runtime makes of them all."""

    path: str
    before: str | None
    after: str
    read: Callable[[], Reading]


def plan(root: str, runtime: str, timeouts: Timeouts, path: str = "") -> Change:
    """The files to be written for a runtime. Raises ConfigError for a file that cannot be changed."""
    timeouts.check()
    if runtime == "crio":
        values: dict[str, bool | str] = {"enable_nri": True}
        if timeouts.request:
            values["nri_plugin_registration_timeout"] = timeouts.registration
            values["nri_plugin_request_timeout"] = timeouts.request
        before = _text(root, CRIO_FILE)
        text = "\n".join(lines_of(crio.TABLE, values, "")) + "\n"
        if before is not None:
            text = patched(before, crio.TABLE, values, CRIO_FILE)
        return Change(CRIO_FILE, before, text, lambda: crio.read(root))
    path = path or containerd.PATH
    version = _containerd_version(root)
    values = {"disable": False}
    if timeouts.request:
        values |= {"plugin_registration_timeout": timeouts.registration, "plugin_request_timeout": timeouts.request}
    before = _text(root, path)
    text = before if before is not None else "version = 2\n"
    table = _table(parse_text(Source(path, text, "toml")), version, path)
    return Change(path, before, patched(text, table, values, path), lambda: containerd.read(root, version, path))


def apply(root: str, change: Change, timeouts: Timeouts) -> str:
    """Write a change, keep what was there, and see that it counts; returns where the old file is kept, or "".

    Raises:
        NriError: a later file says something else, or cannot be read, and all is as it was.
        OSError: it cannot be written.
    """
    path, kept = _place(root, change.path), ""
    mode, owner = _mode_and_owner(path) if change.before is not None else (0o644, None)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if change.before is not None and change.path != CRIO_FILE and not os.path.lexists(path + KEPT):
        write_whole(path + KEPT, change.before.encode(), mode, owner=owner)
        kept = path + KEPT
    write_whole(path, change.after.encode(), mode, owner=owner)
    reading = change.read()
    for remark in reading.remarks:
        if remark.kind in FATAL:
            restore(root, change)
            raise NriError(f"{change.path}: taken back, for the runtime would not start: {remark}; mend that first")
    found = reading.nri
    wanted: list[tuple[str, object]] = [("enabled", True)]
    if timeouts.request:
        wanted += [("registration_timeout_s", parse_duration(timeouts.registration)),
                   ("request_timeout_s", parse_duration(timeouts.request))]  # fmt: skip
    for name, value in wanted:
        if found is None or getattr(found, name) != value:
            restore(root, change)
            settings = crio.SETTINGS if change.path == CRIO_FILE else containerd.SETTINGS
            key = next(setting.key for setting in settings if setting.field == name)
            where = (found.origin.get(key) if found else "") or f"its default of {key}"
            raise NriError(f"{change.path}: without effect, and taken back: {where} counts; change it there")
    return kept


def restore(root: str, change: Change) -> None:
    """Put back what was there before a change, and keep no copy of that beside it."""
    path = _place(root, change.path)
    if change.before is None:
        os.unlink(path)
    else:
        mode, owner = _mode_and_owner(path)
        write_whole(path, change.before.encode(), mode, owner=owner)
        with suppress(OSError, ConfigError):  # what is no text is not what was there before
            if change.path != CRIO_FILE and _text(root, change.path + KEPT) == change.before:
                os.unlink(path + KEPT)  # or it would be taken for what was there before a later change


def _mode_and_owner(path: str) -> tuple[int, tuple[int, int]]:
    """The mode of a file, and the numbers of its user and group."""
    status = os.stat(path)
    return status.st_mode & 0o7777, (status.st_uid, status.st_gid)


def unified(change: Change) -> str:
    """The difference that a change makes, as `diff -u` shows it; "" for none."""
    before, after = ((text or "").splitlines(keepends=True) for text in (change.before, change.after))
    old = "/dev/null" if change.before is None else change.path
    return "".join(
        line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(before, after, old, change.path)
    )


def detect(root: str) -> str:
    """The one runtime that runs below a root, or else is configured or installed there. NriError if it is not one."""
    found = [name for name, unit in UNITS.items() if _run(root, "systemctl", "is-active", unit, silent=True) == 0]
    if not found:
        signs = {"containerd": (containerd.PATH, "/usr/bin/containerd"), "crio": (crio.PATH, crio.DROP_INS)}
        found = [name for name, paths in signs.items() if any(os.path.exists(inside(root, path)) for path in paths)]
    if len(found) != 1:
        reason = f"there are two runtimes, {' and '.join(found)}" if found else "there is neither containerd nor CRI-O"
        raise NriError(f"{reason} below {root}; say which: --runtime containerd, or --runtime crio")
    return found[0]


def check_unit(root: str, runtime: str) -> None:
    """Raise NriError where systemd could not restart a runtime: it has no unit of it, or does not answer."""
    words = ("systemctl", "show", "--property=LoadState", "--value", UNITS[runtime])
    try:
        done = _call(root, *words, capture_output=True)
        state, complaint = done.stdout.strip(), "; ".join(done.stderr.split("\n")).strip("; ")
    except (OSError, subprocess.TimeoutExpired) as error:
        state, complaint = "", str(error)
    if state == "loaded":
        return
    reason = f"systemd says that {UNITS[runtime]} is {state}" if state else f"systemctl says: {complaint}"
    # It does not talk to a systemd that it does not see.
    pod = "" if state or root == "/" else "in a pod, set hostPID: true; or "
    raise NriError(
        f"{runtime} could not be restarted, so nothing is changed: {reason}; {pod}go without --restart, and restart it"
        " yourself"
    )


def restart(root: str, runtime: str, change: Change) -> None:
    """Restart a runtime's unit. NriError if systemd does not: then the change is taken back, and the unit started.

    Else a second run would find nothing to change, and restart nothing; and the node would have no runtime.
    """
    words = ("systemctl", "restart", UNITS[runtime])
    code = _run(root, *words)
    if code:
        restore(root, change)
        again = f"it was started with that; journalctl -u {UNITS[runtime]} says why"
        if _run(root, *words):
            again = f"it does not start with that either: see journalctl -u {UNITS[runtime]}"
        raise NriError(f"{' '.join(words)} failed with {code}; the configuration is as it was, and {again}")


def _table(tree: Any, version: str, path: str) -> tuple[str, ...]:
    """The table of NRI in a file of containerd."""
    said = tree.get("version", 1) if isinstance(tree, dict) else 1
    if said not in (1, 2, 3) or type(said) is not int:
        raise ConfigError(path, "version", f"{said!r} is no version that containerd knows", "write 2 or 3")
    if said != 1:
        return containerd.TABLE
    if not version:
        reason = "2 or 3 is not there, and containerd's release, which decides then, is not known"
        raise ConfigError(path, "version", reason, "add 'version = 2' as its first line if it is for that version")
    return containerd.OLD_TABLE if version.startswith("1.") else containerd.TABLE


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


def _containerd_version(root: str) -> str:
    """The containerd below a root; "" if it does not say."""
    try:
        return containerd.parse_version(_call(root, "containerd", "--version", capture_output=True).stdout)
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
    return subprocess.run(
        words if root == "/" else ("chroot", root, *words),
        timeout=PATIENCE_S, check=False, text=True, errors="replace", env=os.environ | _CHROOT, **streams,
    )  # fmt: skip
