"""The order of the doctor's checks: the runtimes' configuration, sockets, plugins, the kubelet, this installation."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from nri.api.naming import DEFAULT_SOCKET
from nri.cli.doctor import Finding, engine, launched, plugins, runtimes, sockets
from nri.cli.support.versions import versions
from nri.config.kubelet import pinning
from nri.config.root import inside
from nri.config.runtimes import containerd
from nri.config.runtimes.containerd.installations import INSTALLATIONS
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.release import Release, find_release
from nri.placement.registry import POLICIES, POLICY_NAMES
from nri.versions import version_at_least

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.settings import Settings
    from nri.config.runtimes.reading import Reading, RuntimeNri


_PLACEMENT_STATE = "/var/lib/nri/placement"


def examine(settings: Settings, root: str, release: str = "", file: str = "") -> list[Finding]:
    """Look at everything below `root` and return all findings, in the order in which one would look.

    `release` is containerd's, if it is known; `file` its configuration, if it is elsewhere.
    """
    findings: list[Finding] = []
    tree = DiskTree(root)
    readings = _containerd(tree, root, release, file, findings, settings.timeout_s or 5.0)
    readings += [row.read(tree, "", "") for row in RUNTIMES if row is not containerd.RUNTIME]
    remarks = [finding for reading in readings for finding in runtimes.findings_of(reading)]
    findings += [finding for finding in remarks if finding.level != "note"]
    ours = engine.read(root, findings)
    found = [nri for nri in (*map(_running_settings, readings), ours) if nri is not None]
    runtimes.check(found, findings, socket_given=bool(settings.socket_path))
    findings += [finding for finding in remarks if finding.level == "note"]
    paths = _sockets(settings, found, findings)
    listen = {path for path in paths if sockets.check(root, path, findings, settings.timeout_s)}
    seen: set[tuple[str, str]] = set()
    for nri in found:
        if nri.enabled is not False and (nri.plugin_path, nri.plugin_config_path) not in seen:
            seen.add((nri.plugin_path, nri.plugin_config_path))
            programs = plugins.check(root, nri, findings)
            launched.check(root, nri, programs, findings, listens=nri.socket_path in listen)
    # A plugin that the runtime starts knows no other place than the default one.
    plugins.check_failed(root, [*paths, DEFAULT_SOCKET], findings)
    _kubelet(root, findings)
    _python(findings)
    return findings


def _running_settings(reading: Reading) -> RuntimeNri | None:
    """Return the settings of a reading; whether NRI is on is not said where a remark says that it never runs."""
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
        found = Release(release, "--release")
        if not release:
            programs = () if is_usual else row.programs
            found = find_release(root, containerd.RUNTIME, programs, timeout_s)
        if found.version:
            _judge_release(found, findings)
        readings.append(containerd.read_tree(tree, found.version, "" if is_usual else file or row.path))
        if file:
            break
    return readings


def _judge_release(release: Release, findings: list[Finding]) -> None:
    """Name containerd's release, which decides how its files are read."""
    if version_at_least(release.version, "1.7.0"):
        findings.append(Finding("ok", f"containerd {release.version}", release.where))
    else:
        what = f"containerd {release.version} has no NRI"
        findings.append(Finding("problem", what, release.where, "install containerd 1.7 or newer"))


def _sockets(settings: Settings, found: Sequence[RuntimeNri], findings: list[Finding]) -> list[str]:
    """Return the sockets to look at, and note which source named them: flag, environment, configuration, default."""
    configured = {nri.socket_path: nri.name for nri in found if nri.enabled is not False and nri.connections}
    if settings.socket_path:
        path, origin = settings.socket_path, settings.socket_from
        if configured and path not in configured:
            what = f"no runtime is configured to listen on {path}; configured: {', '.join(configured)}"
            findings.append(Finding("warning", what, origin, "is it the right socket?"))
        findings.append(Finding("note", f"plugins and nri use {path}", origin))
        return [path]
    return list(configured)


def _kubelet(root: str, findings: list[Finding]) -> None:
    """Judge the kubelet's managers that pin containers: fine by themselves, a mistake beside a plugin that pins."""
    used = [name for name in POLICIES if os.path.exists(inside(root, f"{_PLACEMENT_STATE}/{name}.json"))]
    for each in pinning(root):
        manager = f"the kubelet's {each.manager} manager pins containers (policy {each.policy})"
        if used:
            what = f"{manager}, and so does {used[0]}: each undoes the other's work"
            findings.append(Finding("warning", what, each.file, each.next))
        else:
            findings.append(Finding("note", manager, each.file, f"do not run {POLICY_NAMES} alongside it"))


def _python(findings: list[Finding]) -> None:
    """Judge what runs the plugins on this machine."""
    found = versions()
    what = f"nri {found['nri']}, NRI API {found['nri_api']}, Python {found['python']}, protobuf {found['protobuf']}"
    findings.append(Finding("ok", what, "python"))
    if found["protobuf_backend"] == "python":
        step = "install a protobuf wheel with the upb back end, and unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
        findings.append(
            Finding("problem", "protobuf runs on its pure-Python back end, about 100 times slower", "protobuf", step)
        )
    else:
        findings.append(Finding("ok", f"protobuf runs on its {found['protobuf_backend']} back end", "protobuf"))
