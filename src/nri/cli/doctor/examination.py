"""Run the doctor's checks in order: the runtimes' configuration, sockets, plugins, the kubelet, this installation."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING

from nri.api.naming import DEFAULT_SOCKET
from nri.cli.doctor import Finding, engine, plugins, runtimes, sockets
from nri.cli.doctor import plugin_processes as launched
from nri.cli.support.versions import versions
from nri.config.kubelet import pinning
from nri.config.root import resolve_below
from nri.config.runtimes import containerd
from nri.config.runtimes.containerd.installations import INSTALLATIONS
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.release import Release, daemon_config, find_release
from nri.placement.registry import POLICIES, POLICY_NAMES
from nri.versions import version_at_least

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.settings import Settings
    from nri.config.runtimes.reading import Reading, RuntimeNri


_PLACEMENT_STATE = "/var/lib/nri/placement"


def examine(settings: Settings, root: str, release: str = "", file: str = "") -> list[Finding]:
    """Run all checks below `root` and return their findings.

    `release` is containerd's release, "" if not known; `file` is a configuration file of containerd at an unusual path.
    """
    findings: list[Finding] = []
    tree = DiskTree(root)
    readings = _containerd(tree, root, release, file, findings, settings.timeout_s or 5.0)
    for runtime in RUNTIMES:
        if runtime is not containerd.RUNTIME:
            readings.append(runtime.read(tree, "", daemon_config(root, runtime)))
    remarks = [finding for reading in readings for finding in runtimes.findings_of(reading)]
    findings += [finding for finding in remarks if finding.level != "note"]
    engine_nri = engine.read(root, findings)
    nri_settings = [nri for nri in (*map(_running_settings, readings), engine_nri) if nri is not None]
    runtimes.check(nri_settings, findings, socket_given=bool(settings.socket_path))
    findings += [finding for finding in remarks if finding.level == "note"]
    paths = _sockets(settings, nri_settings, findings)
    listening = {path for path in paths if sockets.check(root, path, findings, settings.timeout_s)}
    checked_folders: set[tuple[str, str]] = set()
    for nri in nri_settings:
        if nri.enabled is not False and (nri.plugin_path, nri.plugin_config_path) not in checked_folders:
            checked_folders.add((nri.plugin_path, nri.plugin_config_path))
            programs = plugins.check(root, nri, findings)
            launched.check(root, nri, programs, findings, listens=nri.socket_path in listening)
    # A plugin that a runtime starts leaves its note next to the default socket, even if the configuration has another.
    plugins.check_failed(root, [*paths, DEFAULT_SOCKET], findings)
    _kubelet(root, findings)
    _python(findings)
    return _without_contradictions(findings)


def _without_contradictions(findings: list[Finding]) -> list[Finding]:
    """Leave out that a setting is in order if a problem of the same setting is reported."""
    wrong_settings = {_setting(finding.where) for finding in findings if finding.level == "problem"}
    wrong_settings = {setting for setting in wrong_settings if ": " in setting}  # not files, sockets, programs
    return [finding for finding in findings if finding.level != "ok" or _setting(finding.where) not in wrong_settings]


def _setting(where: str) -> str:
    """File and key of a finding, without the line and the tables around the key."""
    file, _, key = re.sub(r":\d+(?=: )", "", where).partition(": ")
    return f"{file}: {key.rpartition('.')[2]}" if key else file


def _running_settings(reading: Reading) -> RuntimeNri | None:
    """The settings of a reading; None if its remarks show that NRI never runs, so that no check reports NRI as on."""
    if reading.nri is None or reading.obstacle is None:
        return reading.nri
    return dataclasses.replace(reading.nri, enabled=None)


def _containerd(
    tree: DiskTree, root: str, release: str, file: str, findings: list[Finding], timeout_s: float
) -> list[Reading]:
    """Read the configuration of every containerd below the root, each by the rules of its own release."""
    readings: list[Reading] = []
    rows = [row for row in INSTALLATIONS if row.path == file] or list(INSTALLATIONS)
    for row in rows:
        is_usual = row.path == containerd.PATH and not file
        if not (is_usual or file or tree.exists(row.path)):
            continue
        containerd_release = Release(release, "--release")
        if not release:
            programs = () if is_usual else row.programs
            containerd_release = find_release(root, containerd.RUNTIME, programs, timeout_s)
        if containerd_release.version:
            _judge_release(containerd_release, findings)
        path = _daemon_file(root) if is_usual else file or row.path
        readings.append(containerd.read_tree(tree, containerd_release.version, path))
        if file:
            break
    return readings


def _daemon_file(root: str) -> str:
    """Return the file of a containerd that runs with another file than an installation's; "" without such a daemon."""
    path = daemon_config(root, containerd.RUNTIME)
    return "" if any(row.path == path for row in INSTALLATIONS) else path


def _judge_release(release: Release, findings: list[Finding]) -> None:
    """Report containerd's release, which decides how its files are read."""
    finding = Finding("ok", f"containerd {release.version}", release.where)
    if not version_at_least(release.version, "1.7.0"):
        what = f"containerd {release.version} has no NRI"
        finding = Finding("problem", what, release.where, "install containerd 1.7 or newer")
    if finding not in findings:  # --release is the release of every installation
        findings.append(finding)


def _sockets(settings: Settings, nri_settings: Sequence[RuntimeNri], findings: list[Finding]) -> list[str]:
    """Return the sockets to examine, and report the source of their paths: flag, environment or configuration."""
    configured = {nri.socket_path: nri.name for nri in nri_settings if nri.enabled is not False and nri.connections}
    if settings.socket_path:
        path, origin = settings.socket_path, settings.socket_from
        if configured and path not in configured:
            what = f"no runtime is configured to listen on {path}; configured: {', '.join(configured)}"
            findings.append(Finding("warning", what, origin, "check that this socket is the intended one"))
        findings.append(Finding("note", f"plugins and nri use {path}", origin))
        return [path]
    return list(configured)


def _kubelet(root: str, findings: list[Finding]) -> None:
    """Report managers of the kubelet that pin containers: a mistake if a placement plugin pins them as well."""
    active_policies = [
        name for name in POLICIES if os.path.exists(resolve_below(root, f"{_PLACEMENT_STATE}/{name}.json"))
    ]
    for manager in pinning(root):
        what_pins = f"the kubelet's {manager.manager} manager pins containers (policy {manager.policy})"
        if active_policies:
            what = f"{what_pins}, and so does {active_policies[0]}: each overwrites the settings of the other"
            findings.append(Finding("warning", what, manager.file, manager.next))
        else:
            findings.append(Finding("note", what_pins, manager.file, f"do not run {POLICY_NAMES} alongside it"))


def _python(findings: list[Finding]) -> None:
    """Report the versions of the programs that run plugins on this machine."""
    installed = versions()
    what = (
        f"nri {installed['nri']}, NRI release {installed['nri_api']}, "
        f"Python {installed['python']}, protobuf {installed['protobuf']}"
    )
    findings.append(Finding("ok", what, "python"))
    if installed["protobuf_backend"] == "python":
        step = "install a protobuf wheel with the upb back end, and unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
        findings.append(
            Finding("problem", "protobuf runs on its pure-Python back end, about 100 times slower", "protobuf", step)
        )
    else:
        findings.append(Finding("ok", f"protobuf runs on its {installed['protobuf_backend']} back end", "protobuf"))
