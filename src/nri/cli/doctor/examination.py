"""Run the doctor's checks in order: the runtimes' configuration, sockets, plugins, the kubelet, this installation."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from nri.api.naming import DEFAULT_SOCKET
from nri.cli.doctor import Finding, engine, launched, plugins, runtimes, sockets
from nri.cli.support.versions import versions
from nri.config.kubelet import pinning
from nri.config.root import inside
from nri.config.runtimes import containerd
from nri.config.runtimes.registry import RUNTIMES
from nri.placement.registry import POLICIES, POLICY_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.settings import Settings
    from nri.config.runtimes.reading import RuntimeNri


_PLACEMENT_STATE = "/var/lib/nri/placement"


def examine(settings: Settings, root: str) -> list[Finding]:
    """Run all checks below `root` and return their findings."""
    findings: list[Finding] = []
    version = _containerd_version(root, findings, settings.timeout_s or 5.0)
    readings = [row.read(root, version if row is containerd.RUNTIME else "", "") for row in RUNTIMES]
    for reading in readings:
        findings += runtimes.findings_of(reading)
    engine_nri = engine.read(root, findings)
    nri_settings = [nri for nri in (*(reading.nri for reading in readings), engine_nri) if nri is not None]
    runtimes.check(nri_settings, findings, socket_given=bool(settings.socket_path))
    paths = _sockets(settings, nri_settings, findings)
    listening = {path for path in paths if sockets.check(root, path, findings, settings.timeout_s)}
    checked_folders: set[tuple[str, str]] = set()
    for nri in nri_settings:
        if nri.enabled is not False and (nri.plugin_path, nri.plugin_config_path) not in checked_folders:
            checked_folders.add((nri.plugin_path, nri.plugin_config_path))
            programs = plugins.check(root, nri, findings)
            launched.check(root, nri, programs, findings, listens=nri.socket_path in listening)
    # A plugin that a runtime starts leaves its note next to the default socket, whatever the configuration says.
    plugins.check_failed(root, [*paths, DEFAULT_SOCKET], findings)
    _kubelet(root, findings)
    _python(findings)
    return findings


def _containerd_version(root: str, findings: list[Finding], timeout_s: float) -> str:
    """The version of this machine's containerd; "" without containerd, or if another root is examined."""
    program = shutil.which("containerd") if root == "/" else None
    if program is None:
        return ""
    try:
        process = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = containerd.parse_version(process.stdout)
    if version and tuple(map(int, version.split(".")[:2])) < (1, 7):
        step = "install containerd 1.7 or newer"
        findings.append(Finding("problem", f"containerd {version} has no NRI", program, step))
    elif version:
        findings.append(Finding("ok", f"containerd {version}", program))
    return version


def _sockets(settings: Settings, nri_settings: Sequence[RuntimeNri], findings: list[Finding]) -> list[str]:
    """Return the sockets to examine, and report the source of their paths: flag, environment or configuration."""
    configured = {nri.socket_path: nri.name for nri in nri_settings if nri.enabled is not False and nri.connections}
    if settings.socket_path:
        path, origin = settings.socket_path, settings.socket_from
        if configured and path not in configured:
            what = f"no runtime is configured to listen on {path}; configured: {', '.join(configured)}"
            findings.append(Finding("warning", what, origin, "check that it is the intended socket"))
        findings.append(Finding("note", f"plugins and nri use {path}", origin))
        return [path]
    return list(configured)


def _kubelet(root: str, findings: list[Finding]) -> None:
    """Report managers of the kubelet that pin containers: a mistake if a placement plugin pins them as well."""
    active_policies = [name for name in POLICIES if os.path.exists(inside(root, f"{_PLACEMENT_STATE}/{name}.json"))]
    for manager in pinning(root):
        what_pins = f"the kubelet's {manager.manager} manager pins containers (policy {manager.policy})"
        if active_policies:
            what = f"{what_pins}, and so does {active_policies[0]}: each overwrites the settings of the other"
            findings.append(Finding("warning", what, manager.file, manager.next))
        else:
            findings.append(Finding("note", what_pins, manager.file, f"do not run {POLICY_NAMES} alongside it"))


def _python(findings: list[Finding]) -> None:
    """Report the versions of what runs plugins on this machine."""
    installed = versions()
    what = (
        f"nri {installed['nri']}, NRI API {installed['nri_api']}, "
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
