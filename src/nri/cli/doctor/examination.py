"""The order of the doctor's checks: the runtimes' configuration, sockets and plugins, the kubelet, this installation.

Next: `nri.cli.doctor.runtimes`, the first of the checks.
"""

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
    """Look at everything below `root` and return all findings, in the order in which one would look."""
    findings: list[Finding] = []
    version = _containerd_version(root, findings, settings.timeout_s or 5.0)
    readings = [row.read(root, version if row is containerd.RUNTIME else "", "") for row in RUNTIMES]
    for reading in readings:
        findings += runtimes.findings_of(reading)
    ours = engine.read(root, findings)
    found = [nri for nri in (*(reading.nri for reading in readings), ours) if nri is not None]
    runtimes.check(found, findings, socket_given=bool(settings.socket_path))
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


def _containerd_version(root: str, findings: list[Finding], timeout_s: float) -> str:
    """Ask the containerd on this machine for its version; "" when a copy of another is examined, or there is none."""
    program = shutil.which("containerd") if root == "/" else None
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = containerd.parse_version(done.stdout)
    if version and tuple(map(int, version.split(".")[:2])) < (1, 7):
        step = "install containerd 1.7 or newer"
        findings.append(Finding("problem", f"containerd {version} has no NRI", program, step))
    elif version:
        findings.append(Finding("ok", f"containerd {version}", program))
    return version


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
