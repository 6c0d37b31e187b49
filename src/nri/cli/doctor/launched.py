"""The plugins that a runtime has launched, and which of them are gone: containerd and CRI-O start none a second time.

A launched plugin is known by the environment that every runtime gives it, which root can read. Rules: a runtime that
does not listen has launched nothing; a plugin that was put into the folder after the runtime's start is not gone, but
still to come. Next: `nri.host.process`, which reads /proc.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nri.api.naming import ENV_IDX, ENV_NAME, full_name
from nri.cli.doctor import Finding, engine
from nri.config.root import inside
from nri.host import process
from nri.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.config.runtimes.reading import RuntimeNri


class _Running(NamedTuple):
    """A process that is a launched plugin. Without any socket it has lost the one that it was started with."""

    pid: int
    connected: bool


def check(root: str, nri: RuntimeNri, programs: Mapping[str, str], findings: list[Finding], *, listens: bool) -> None:
    """Judge whether the plugins that the runtime launches are running.

    Args:
        root: the folder to look under.
        nri: the runtime's settings.
        programs: the plugins that it can launch as programs, ``NN-name`` -> path.
        findings: what is found is added; a plugin that has a problem there already is left out.
        listens: a process listens on its socket.
    """
    told = {finding.where for finding in findings if finding.level == "problem"}
    wanted = {label: path for label, path in programs.items() if path not in told}
    host = Root(root)
    pids = process.numbers(host)
    if not wanted or not pids or (nri.connections and not listens):
        return
    running = _running(host, pids)
    if running is None:
        step = "run the doctor as root, in a container with CAP_SYS_PTRACE and the host's processes"
        findings.append(Finding("note", "whether they run cannot be seen from here", nri.plugin_path, step))
        return
    since = _time(inside(root, nri.socket_path)) if nri.connections else None
    for label, path in wanted.items():
        finding = _judged(nri, label, path, running.get(label), new=_is_new(inside(root, path), since))
        if finding is not None:
            findings.append(finding)


def _judged(nri: RuntimeNri, label: str, path: str, running: _Running | None, *, new: bool) -> Finding | None:
    """Judge one plugin; None for one that runs and has a connection. `new`: it is younger than the runtime's start."""
    again = (
        "its state and last output: nri why --plugins; it is started again, unless the policy says restart = never"
        if nri.name == engine.NAME
        else f"find out why (journalctl | grep {label}), then restart {nri.name}: it launches a plugin once"
    )
    if running is not None:
        what = f"plugin {label} (process {running.pid}) has no connection any more, and cannot connect again"
        return None if running.connected else Finding("problem", what, path, again)
    if new:
        what = f"plugin {label} is not launched yet: it was put there after {nri.name} had started"
        return Finding("note", what, path, f"restart {nri.name}")
    if not nri.connections:
        return Finding("warning", f"plugin {label} does not run, if {nri.name} does", path, again)
    return Finding("problem", f"plugin {label} was launched and is gone", path, again)


def _running(host: Root, pids: Iterable[int]) -> dict[str, _Running] | None:
    """The launched plugins among the processes, by ``NN-name``; None if we may not look at each process."""
    found: dict[str, _Running] = {}
    for pid in pids:
        told = process.environment(host, pid)
        if told is None and pid > 1 and process.command_line(host, pid):  # no thread of the kernel
            return None
        values = dict(line.partition("=")[::2] for line in told or ())
        if ENV_IDX not in values or ENV_NAME not in values:
            continue
        label = full_name(values[ENV_IDX], values[ENV_NAME])
        now = _Running(pid, process.has_socket(host, pid))
        if now.connected or label not in found:  # a plugin's own children have its environment, and no connection
            found[label] = now
    return found


def _is_new(path: str, since: float | None) -> bool:
    """Whether a file was put, or changed, after that time."""
    try:
        return since is not None and os.lstat(path).st_ctime > since
    except OSError:
        return False


def _time(path: str) -> float | None:
    """When a socket was made, in seconds since the epoch; None if it is not there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
