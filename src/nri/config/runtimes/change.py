"""Enable NRI in a runtime's configuration, set timeouts, and restart the runtime on request.

Before a file is written, the new content is evaluated by the runtime's rules, so that each change has the requested
effect. Only NRI's keys in an operator's file change, and a copy of its old content is kept next to it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.duration import parse_duration
from nri.config.root import resolve_below
from nri.config.runtimes import containerd
from nri.config.runtimes.containerd.glob import BadPattern, glob
from nri.config.runtimes.containerd.installations import (
    INSTALLATIONS,
    Installation,
    existing_installations,
    installation_at,
)
from nri.config.runtimes.file_tree import DiskTree, FileTree, ReplacedFile
from nri.config.runtimes.patch import Value, lines_of, patched
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.release import daemon_config, find_release
from nri.config.runtimes.remark_texts import texts_of
from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError, NriError
from nri.files import read_regular, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.config.runtimes.reading import Reading, Remark
    from nri.config.runtimes.runtime import ManagedFile, Runtime

#: The runtimes that can be changed, by the names of their programs.
MANAGED: dict[str, Runtime] = {row.program: row for row in RUNTIMES if row.managed_file is not None}
#: The suffix of the copy of an operator's file.
_COPY_SUFFIX = ".before-nri"
_MAX_FILE_BYTES = 1 << 20
_COMMAND_TIMEOUT_S = 90.0
#: Without this variable, systemctl below another root prints that it ignores its command, and exits with code 0.
_CHROOT_ENVIRONMENT = {"SYSTEMD_IGNORE_CHROOT": "1"}
#: Exit codes of chroot and the shell if a program cannot be run.
_NO_PROGRAM = {125, 126, 127}
#: The line with which a template of k3s and rke2 includes their default configuration.
_BASE_TEMPLATE = '{{ template "base" . }}\n'


class Timeouts(NamedTuple):
    """A plugin's timeouts in Go's format; both or neither are set."""

    registration: str = ""
    request: str = ""

    def check(self) -> None:
        """Raise ConfigError if the timeouts do not make sense for a runtime."""
        seconds = []
        for name, text in zip(("registration", "request"), self, strict=True):
            flag = f"--nri-plugin-{name}-timeout"
            if bool(self.registration) != bool(self.request):
                raise ConfigError("command line", flag, "both timeouts are required together", "set both timeouts")
            try:
                seconds.append(parse_duration(text) if text else 0.0)
            except ValueError as error:
                raise ConfigError("command line", flag, str(error)) from None
        if self.registration and not 0 < seconds[1] < seconds[0]:
            reason = f"{self.registration} must exceed the request timeout, {self.request}, which must exceed 0"
            raise ConfigError("command line", "--nri-plugin-registration-timeout", reason)


class Change(NamedTuple):
    """A planned change of a file.

    Attributes:
        runtime: the runtime that reads the file.
        file: the file, with the path that is written.
        before: its current content, or None if it does not exist.
        after: its new content.
        reading: the runtime's configuration with the new content.
        main: the runtime's main file.
        unit: the systemd unit of the runtime.
    """

    runtime: Runtime
    file: ManagedFile
    before: str | None
    after: str
    reading: Reading
    main: str
    unit: str


def plan(root: str, program: str, timeouts: Timeouts, path: str = "", release: str = "") -> Change:
    """Plan the change for the runtime with this program. Raises ConfigError if the file cannot be changed.

    Args:
        path: the runtime's main file, or "" for the default.
        release: the runtime's release, or "" if it is not known.
    """
    timeouts.check()
    runtime = MANAGED[program]
    assert runtime.managed_file is not None
    if path and runtime.managed_file.is_fixed:
        raise ConfigError("command line", "--file", f"{runtime.title} does not read another file", "leave it out")
    path = path or _daemon_file(root, runtime)
    installation = _installation(root, path) if runtime is containerd.RUNTIME else None
    programs = installation.programs if installation else ()
    release = release or _release(root, runtime, programs)
    values = {runtime.keys["enabled"]: runtime.enabled_value, **_timeout_values(runtime, timeouts)}
    if installation is not None and (installation.templates or installation.drop_in):
        return _plan_installation(root, installation, release, values)
    file = runtime.managed_file._replace(path=path) if path else runtime.managed_file
    before = _text(root, file.path)
    text = file.new_text if before is None else before
    try:
        content = parse_text(Source(file.path, text, file.format))
    except ConfigError:
        if file.format != "json" or runtime.read(DiskTree(root), release, path).failure is not None:
            raise
        values |= file.defaults
        step = "change it by hand: " + ", ".join(f"{json.dumps(key)}: {json.dumps(values[key])}" for key in values)
        reason = "has a comment or a key twice, and cannot be changed safely"
        raise ConfigError(file.path, "", reason, step) from None
    table = file.table(content, release, file.path)
    existing = _table_at(content, table)
    values |= {key: value for key, value in file.defaults.items() if not existing.get(key)}
    after = patched(text, table, values, file.path, file.format)
    tree = ReplacedFile(DiskTree(root), file.path, after.encode())
    reading = runtime.read(tree, release, path)
    unit = _unit(root, installation) if installation else runtime.unit
    return Change(runtime, file, before, after, reading, path or runtime.path, unit)


def _timeout_values(runtime: Runtime, timeouts: Timeouts) -> dict[str, Value]:
    """Return the keys of timeouts, in the runtime's form. Raises ConfigError if the runtime does not support them."""
    assert runtime.managed_file is not None
    values: dict[str, Value] = {}
    for name, text in zip(("registration", "request"), timeouts if timeouts.request else (), strict=False):
        flag, key = f"--nri-plugin-{name}-timeout", runtime.keys.get(f"{name}_timeout_s")
        if key is None:
            reason = f"{runtime.title} has no setting for timeouts of plugins"
            raise ConfigError("command line", flag, reason, "leave the timeouts out")
        seconds = parse_duration(text)
        if runtime.managed_file.whole_seconds and not seconds.is_integer():
            raise ConfigError("command line", flag, f"{runtime.title} accepts whole seconds only, not {text}")
        values[key] = int(seconds) if runtime.managed_file.whole_seconds else text
    return values


def _table_at(content: Any, table: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a table of parsed content; empty if it does not exist."""
    for key in table:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _installation(root: str, path: str) -> Installation | None:
    """Find the installation of containerd to change. Raises ConfigError if there are several that run, or could run."""
    if path:
        return installation_at(path)
    rows = existing_installations(DiskTree(root)) or [INSTALLATIONS[0]]
    if len(rows) > 1:
        rows = [row for row in rows if any(_is_active(root, unit) for unit in row.units)] or rows
    if len(rows) > 1:
        reason = f"there are several containerds: {', '.join(row.path for row in rows)}"
        raise ConfigError("command line", "--file", reason, f"choose one, such as --file {rows[0].path}")
    return rows[0]


def _daemon_file(root: str, runtime: Runtime) -> str:
    """Return the file that a running daemon was started with, or "". dockerd writes one to /run for its containerd."""
    path = daemon_config(root, runtime)
    return "" if path.startswith(("/run/", "/var/run/")) else path


def _plan_installation(root: str, installation: Installation, release: str, values: Mapping[str, Value]) -> Change:
    """Plan a change in a distribution of Kubernetes: its main file must not be changed.

    A drop-in is preferred to a template, which the distribution does not update.
    """
    runtime, tree = containerd.RUNTIME, DiskTree(root)
    main = _text(root, installation.path)
    if main is None:
        raise ConfigError(
            installation.path, "", f"does not exist: {installation.name} has not run on this node yet", "start it once"
        )
    content = parse_text(Source(installation.path, main, "toml"))
    assert runtime.managed_file is not None
    table = runtime.managed_file.table(content, release, installation.path)
    version = content.get("version", 1) if isinstance(content, dict) else 1
    target = installation.drop_in
    if not target:
        target = next(path for least, path in sorted(installation.templates.items(), reverse=True) if version >= least)
        drop_in = f"{target.removesuffix('.tmpl')}.d/nri.toml"
        target = drop_in if _is_imported(tree, content, drop_in) else target
    before = _text(root, target)
    if target in installation.templates.values():
        after = _changed_template(before, table, values, target, has_base=len(installation.templates) > 1)
        old = _BASE_TEMPLATE if before is None else before
        # Lines that are appended to the template appear at the end of the generated file, which may have the table.
        appended = after.removeprefix(old) if after.startswith(old) else ""
        expected = f"{main}\n{appended}" if appended else patched(main, table, values, installation.path)
        changed: FileTree = ReplacedFile(tree, installation.path, expected.encode())
    else:
        after = patched(f"version = {version}\n" if before is None else before, table, values, target)
        changed = ReplacedFile(tree, target, after.encode())
    file = runtime.managed_file._replace(path=target)
    reading = runtime.read(changed, release, installation.path)
    return Change(runtime, file, before, after, reading, installation.path, _unit(root, installation))


def _is_imported(tree: FileTree, content: Any, path: str) -> bool:
    """Whether a main file imports a drop-in that may not exist yet, by a pattern."""
    patterns = content.get("imports") if isinstance(content, dict) else None
    changed = ReplacedFile(tree, path, b"")
    with suppress(BadPattern):  # the daemon does not start with it, which is reported later
        return isinstance(patterns, list) and any(path in glob(changed, str(pattern)) for pattern in patterns)
    return False


def _changed_template(
    text: str | None, table: tuple[str, ...], values: Mapping[str, Value], path: str, *, has_base: bool
) -> str:
    """Return a template with NRI's table. TOML is changed in place; other templates get the table appended."""
    if text is None and not has_base:
        raise ConfigError(path, "", "does not exist", "specify the file to change with --file")
    text = _BASE_TEMPLATE if text is None else text
    if "{{" not in text:
        return patched(text, table, values, path)
    lines = lines_of(table, values)
    if "\n".join(lines) in text:
        return text
    if re.search(rf"(?m)^\s*\[.*{re.escape(table[-1])}[\"']?\]", text):
        step = "change it by hand: " + " / ".join(lines)
        raise ConfigError(path, table[-1], "the template already has the table and cannot be changed safely", step)
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}\n" + "\n".join(lines) + "\n"


def apply(root: str, change: Change, timeouts: Timeouts) -> str:
    """Write a change and keep a copy of the old content. Returns the path of the copy, or "".

    Raises:
        NriError: the runtime would not start, or read other values. The file is then unchanged or restored.
        OSError: the file cannot be written.
    """
    check_effect(change, timeouts)
    path, copy = _path_on_node(root, change.file.path), ""
    mode, owner = _mode_and_owner(path) if change.before is not None else (0o644, None)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if change.before is not None and change.file.is_operators and not os.path.lexists(path + _COPY_SUFFIX):
        write_whole(path + _COPY_SUFFIX, change.before.encode(), mode, owner=owner)
        copy = path + _COPY_SUFFIX
    write_whole(path, change.after.encode(), mode, owner=owner)
    _check_by_daemon(root, change)
    return copy


def check_effect(change: Change, timeouts: Timeouts) -> None:
    """Raise NriError unless the runtime starts with the change, runs NRI and has the requested timeouts."""
    path, reading = change.file.path, change.reading
    if reading.failure is not None:
        reason = f"the runtime would not start: {_remark_text(reading, reading.failure)}"
        raise NriError(f"{path}: nothing was written, because {reason}; fix that first")
    if reading.obstacle is not None:
        reason = f"NRI would be enabled but never run: {_remark_text(reading, reading.obstacle)}"
        raise NriError(f"{path}: nothing was written, because {reason}; fix that first")
    nri = reading.nri
    if nri is not None and nri.enabled is None:
        reason = "the effect depends on the release of the runtime, which is not known"
        raise NriError(f"{path}: nothing was written: {reason}; specify the release with --release")
    requested: list[tuple[str, object]] = [("enabled", True)]
    if timeouts.request:
        requested += [
            ("registration_timeout_s", parse_duration(timeouts.registration)),
            ("request_timeout_s", parse_duration(timeouts.request)),
        ]
    for name, value in requested:
        if nri is None or getattr(nri, name) != value:
            key = change.runtime.keys[name]
            where = nri.origin.get(key) if nri else ""
            reason = f"{where} takes precedence; change the value there"
            if not where:
                reason = f"the runtime's default for {key} takes precedence"
            raise NriError(f"{path}: nothing was written, because {reason}")


def _remark_text(reading: Reading, remark: Remark) -> str:
    texts = texts_of(reading.runtime, remark)
    return f"{remark.where}: {texts.what}"


def _check_by_daemon(root: str, change: Change) -> None:
    """Check the files with the runtime's own program, if it exists."""
    command = change.runtime.check_command
    if not command or change.file.path != change.main:
        return  # the main file is generated later from the template
    words = (change.runtime.program, *(word.format(path=change.main) for word in command))
    try:
        process = _call(root, *words, capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        return
    if process.returncode and process.returncode not in _NO_PROGRAM:
        restore(root, change)
        reason = process.stderr.strip().rpartition("\n")[2]
        raise NriError(f"{change.file.path}: `{' '.join(words)}` failed: {reason}. The old content was restored")


def restore(root: str, change: Change) -> None:
    """Restore the content before a change, and remove the copy."""
    path = _path_on_node(root, change.file.path)
    if change.before is None:
        os.unlink(path)
        return
    mode, owner = _mode_and_owner(path)
    write_whole(path, change.before.encode(), mode, owner=owner)
    with suppress(OSError, ConfigError):  # a copy that is not UTF-8 is not from this change
        if change.file.is_operators and _text(root, change.file.path + _COPY_SUFFIX) == change.before:
            os.unlink(path + _COPY_SUFFIX)  # otherwise it would be taken for the content before a later change


def _mode_and_owner(path: str) -> tuple[int, tuple[int, int]]:
    """Return the mode of a file, and the numbers of its user and group."""
    status = os.stat(path)
    return status.st_mode & 0o7777, (status.st_uid, status.st_gid)


def unified(change: Change) -> str:
    """Return a change in the format of `diff -u`. Returns "" without a difference."""
    before, after = ((text or "").splitlines(keepends=True) for text in (change.before, change.after))
    old = "/dev/null" if change.before is None else change.file.path
    return "".join(
        line if line.endswith("\n") else f"{line}\n"
        for line in difflib.unified_diff(before, after, old, change.file.path)
    )


def detect(root: str) -> str:
    """Find the program of the runtime that runs below a root, else of the installed runtime.

    Only runtimes with a CRI are candidates: Docker Engine comes with containerd, and the operator must name it.
    Raises NriError if there is no runtime, or if there are several.
    """
    candidates = {name: row for name, row in MANAGED.items() if row.cri_sockets}
    names = [name for name, row in candidates.items() if any(_is_active(root, unit) for unit in _units(row))]
    if not names:
        names = [
            name
            for name, row in candidates.items()
            if any(os.path.exists(resolve_below(root, path)) for path in _installed_paths(row))
        ]
    if len(names) != 1:
        titles = " nor ".join(row.title for row in candidates.values())
        reason = f"there are several runtimes, {' and '.join(names)}" if names else f"there is neither {titles}"
        raise NriError(f"{reason} below {root}; choose one: {', or '.join(f'--runtime {name}' for name in MANAGED)}")
    return names[0]


def _is_active(root: str, unit: str) -> bool:
    return _run(root, "systemctl", "is-active", unit, silent=True) == 0


def _units(runtime: Runtime) -> tuple[str, ...]:
    if runtime is not containerd.RUNTIME:
        return (runtime.unit,)
    return tuple(unit for row in INSTALLATIONS for unit in row.units)


def _installed_paths(runtime: Runtime) -> tuple[str, ...]:
    if runtime is not containerd.RUNTIME:
        return runtime.installed_paths
    return (*runtime.installed_paths, *(row.path for row in INSTALLATIONS))


def _unit(root: str, installation: Installation) -> str:
    """Return the active unit of an installation, else its first unit."""
    if len(installation.units) < 2:
        return installation.units[0] if installation.units else containerd.RUNTIME.unit
    return next((unit for unit in installation.units if _is_active(root, unit)), installation.units[0])


def check_unit(root: str, program: str, unit: str = "") -> None:
    """Raise NriError if systemd cannot restart a runtime: it does not have the unit, or does not answer."""
    unit = unit or MANAGED[program].unit
    try:
        process = _call(root, "systemctl", "show", "--property=LoadState", "--value", unit, capture_output=True)
        state, complaint = process.stdout.strip(), "; ".join(process.stderr.split("\n")).strip("; ")
    except (OSError, subprocess.TimeoutExpired) as error:
        state, complaint = "", str(error)
    if state == "loaded":
        return
    reason = f"systemd reports that {unit} is {state}" if state else f"systemctl failed: {complaint}"
    # systemctl cannot reach a systemd in another pid namespace.
    pod = "" if state or root == "/" else "in a pod, set hostPID: true; or "
    raise NriError(
        f"{program} could not be restarted, so nothing is changed: {reason}; {pod}omit --restart, and restart it"
        " yourself"
    )


def restart(root: str, change: Change) -> None:
    """Restart or reload a runtime's unit. If that fails, restore the old content, try again, and raise NriError.

    Without this, the node would have no runtime, and a second run would not change or restart anything.
    """
    unit = change.unit
    words = ("systemctl", change.runtime.apply_command, unit)
    code = _run(root, *words)
    if code:
        restore(root, change)
        outcome = f"{unit} was started with it; see journalctl -u {unit} for the reason"
        if _run(root, *words):
            outcome = f"{unit} does not start with it either: see journalctl -u {unit}"
        raise NriError(f"{' '.join(words)} failed with {code}; the old configuration was restored, and {outcome}")


def _text(root: str, path: str) -> str | None:
    """Read a file's text. Returns None if there is no file. Raises ConfigError if it cannot be read."""
    try:
        return read_regular(_path_on_node(root, path), _MAX_FILE_BYTES, follow=False).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = "the file is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or ""
        raise ConfigError(path, "", f"cannot be read: {reason}") from None


def _path_on_node(root: str, path: str) -> str:
    """Return the path of a node's file for this process. Links are followed, but never out of the root."""
    place = resolve_below(root, path)
    return os.path.realpath(place) if root == "/" else place


def _release(root: str, runtime: Runtime, programs: tuple[str, ...]) -> str:
    """Find the release of the runtime below a root. Returns "" if it is not known or not needed."""
    if runtime.release is None:
        return ""
    if root == "/":
        return find_release(root, runtime, programs).version
    for program in (*programs, runtime.program):
        try:
            release = runtime.release(_call(root, program, "--version", capture_output=True).stdout)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if release:
            return release
    return find_release(root, runtime).version


def _run(root: str, *words: str, silent: bool = False) -> int:
    """Run a program of the node, with its output on standard error. Returns its exit code, 127 without a program."""
    out = subprocess.DEVNULL if silent else 2
    try:
        return _call(root, *words, stdout=out, stderr=out).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127


def _call(root: str, *words: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of the node. Raises OSError if it cannot run, and TimeoutExpired if it takes too long."""
    return subprocess.run(  # noqa: S603 - systemctl and the runtime, without a shell
        words if root == "/" else ("chroot", root, *words),
        timeout=_COMMAND_TIMEOUT_S,
        check=False,
        text=True,
        errors="replace",
        env=os.environ | _CHROOT_ENVIRONMENT,
        **streams,
    )
