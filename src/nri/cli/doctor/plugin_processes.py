"""Find launched plugins that have ended or lost their connection: containerd and CRI-O launch a plugin only once.

A launched plugin is recognized by the environment variables that every runtime gives it, which root can read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nri.api.naming import ENV_IDX, ENV_NAME, full_name
from nri.cli.doctor import Finding, engine
from nri.config.root import resolve_below
from nri.host import process
from nri.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.config.runtimes.reading import RuntimeNri


class _PluginProcess(NamedTuple):
    """A process of a launched plugin.

    Attributes:
            connected: the process has a socket: it has not closed the socket with which it was started.
    """

    pid: int
    connected: bool


def check(root: str, nri: RuntimeNri, programs: Mapping[str, str], findings: list[Finding], *, listens: bool) -> None:
    """Check whether the plugins that the runtime launches are running.

    Args:
            root: the folder below which processes are read.
            nri: the runtime's settings.
            programs: the paths of the plugins that the runtime launches as programs, by ``NN-name``.
            findings: results are added; plugins that already have a problem are skipped.
            listens: a process listens on the runtime's socket; a runtime that does not listen has launched nothing.
    """
    bad_paths = {finding.where for finding in findings if finding.level == "problem"}
    expected = {label: path for label, path in programs.items() if path not in bad_paths}
    host = Root(root)
    pids = process.numbers(host)
    if not expected or not pids or (nri.connections and not listens):
        return
    running = _plugin_processes(host, pids)
    if running is None:
        step = "run the doctor as root, in a container with CAP_SYS_PTRACE and the host's processes"
        findings.append(Finding("note", "cannot see whether these plugins run", nri.plugin_path, step))
        return
    runtime_start_s = _creation_time_s(resolve_below(root, nri.socket_path)) if nri.connections else None
    for label, path in expected.items():
        finding = _check_plugin(
            nri, label, path, running.get(label), new=_is_new(resolve_below(root, path), runtime_start_s)
        )
        if finding is not None:
            findings.append(finding)


def _check_plugin(
    nri: RuntimeNri, label: str, path: str, running: _PluginProcess | None, *, new: bool
) -> Finding | None:
    """Check a plugin. Returns None if it runs and is connected. `new`: its file is newer than the runtime's start."""
    step = (
        "nri why --plugins shows its state and last output; "
        "the engine restarts it unless its policy says restart = never"
        if nri.name == engine.NAME
        else f"find out why (journalctl | grep {label}), then restart {nri.name}, which launches each plugin only once"
    )
    if running is not None:
        what = f"plugin {label} (process {running.pid}) lost its connection and cannot connect again"
        return None if running.connected else Finding("problem", what, path, step)
    if new:
        what = f"plugin {label} is not launched yet: its file is newer than the start of {nri.name}"
        return Finding("note", what, path, f"restart {nri.name}")
    if not nri.connections:
        return Finding("warning", f"plugin {label} does not run, although {nri.name} may be running", path, step)
    return Finding("problem", f"plugin {label} was launched and has ended", path, step)


def _plugin_processes(host: Root, pids: Iterable[int]) -> dict[str, _PluginProcess] | None:
    """The processes of launched plugins, by ``NN-name``. Returns None if the environment of a process is unreadable."""
    plugin_processes: dict[str, _PluginProcess] = {}
    for pid in pids:
        variables = process.environment(host, pid)
        if variables is None and pid > 1 and process.command_line(host, pid):  # kernel threads have no command line
            return None
        values = dict(line.partition("=")[::2] for line in variables or ())
        if ENV_IDX not in values or ENV_NAME not in values:
            continue
        label = full_name(values[ENV_IDX], values[ENV_NAME])
        plugin_process = _PluginProcess(pid, process.has_socket(host, pid))
        if plugin_process.connected or label not in plugin_processes:
            # Children of the plugin inherit its environment, but have no connection.
            plugin_processes[label] = plugin_process
    return plugin_processes


def _is_new(path: str, since: float | None) -> bool:
    """Whether a file was created or changed after the time `since`."""
    try:
        return since is not None and os.lstat(path).st_ctime > since
    except OSError:
        return False


def _creation_time_s(path: str) -> float | None:
    """When a socket was created, in seconds since the epoch. Returns None if the socket does not exist."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
