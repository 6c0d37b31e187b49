"""Check the NRI settings of each runtime, and compare those of several runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.cli.doctor import Finding, engine
from nri.config import format_duration
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.remark_texts import switch_on_step, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.runtimes.reading import Reading, Remark, RuntimeNri
    from nri.config.runtimes.runtime import Runtime

#: The longest path of a unix socket: the kernel's address has 108 bytes, which include the zero at its end.
MAX_SOCKET_PATH_BYTES = 107

_ROWS: dict[str, Runtime] = {row.name: row for row in (*RUNTIMES, engine.RUNTIME)}


def check(nri_settings: Sequence[RuntimeNri], findings: list[Finding], *, socket_given: bool = False) -> None:
    """Check the configuration of all runtimes. With `socket_given`, a missing configuration is not a problem."""
    if not nri_settings and socket_given:
        names = ", ".join(row.title for row in RUNTIMES)
        what = f"no configuration of {names} or nri-engine found: only the socket is examined"
        findings.append(Finding("note", what, "/etc"))
    elif not nri_settings:
        step = (
            "to try NRI at once, run the engine of this package: nri engine check, then sudo nri engine serve "
            "(without root: nri engine serve --dry DIR). Otherwise install a runtime "
            f"({', '.join(row.title for row in RUNTIMES)}), or specify the folder above its /etc with --root"
        )
        findings.append(Finding("problem", "no configuration of a runtime with NRI found", "/etc", step))
    for nri in nri_settings:
        _enabled(nri, findings, is_only=len(nri_settings) == 1)
        if nri.enabled is not False:
            _connections(nri, findings)
            _socket_path(nri, findings)
            _timeouts(nri, findings)
    _shared_socket(nri_settings, findings)


def _setting_place(nri: RuntimeNri, key: str) -> str:
    """Return the file and key where a setting was set, or the file where it could be set."""
    return nri.origin.get(key, f"{nri.path or _ROWS[nri.name].path}: {key}")


def _enabled(nri: RuntimeNri, findings: list[Finding], *, is_only: bool) -> None:
    key, step = _ROWS[nri.name].keys["enabled"], switch_on_step(_ROWS[nri.name], nri)
    if nri.enabled:
        findings.append(Finding("ok", f"NRI is on in {nri.name}, socket {nri.socket_path}", _setting_place(nri, key)))
    elif nri.enabled is False:
        by_default = "" if key in nri.origin else " by default"
        # A node often has a second runtime, which the kubelet cannot use.
        level = "problem" if is_only or key in nri.origin or _ROWS[nri.name].cri_sockets else "note"
        findings.append(Finding(level, f"NRI is off in {nri.name}{by_default}", _setting_place(nri, key), step))


def _connections(nri: RuntimeNri, findings: list[Finding]) -> None:
    if nri.connections:
        return
    keys, step = _ROWS[nri.name].keys, _ROWS[nri.name].allow_connections
    key = keys.get("connections", keys["socket_path"])
    what = f"connections are disabled: {nri.name} has no NRI socket, and only plugins in {nri.plugin_path} can run"
    findings.append(Finding("problem", what, _setting_place(nri, key), f"{step}, or use `nri enable`"))


def _socket_path(nri: RuntimeNri, findings: list[Finding]) -> None:
    key = _ROWS[nri.name].keys["socket_path"]
    path = nri.socket_path
    if nri.connections and not path.startswith("/"):
        findings.append(
            Finding("problem", f'the socket path "{path}" is not absolute', _setting_place(nri, key), "begin it with /")
        )
    if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
        what = f"the socket path has {len(path.encode())} bytes; the kernel allows {MAX_SOCKET_PATH_BYTES}"
        findings.append(Finding("problem", what, _setting_place(nri, key), "choose a shorter path"))


def _timeouts(nri: RuntimeNri, findings: list[Finding]) -> None:
    """Find timeouts that make plugins fail on a busy node, or hold up pods for long."""
    keys = _ROWS[nri.name].keys
    if "request_timeout_s" not in keys:
        return
    request, registration = nri.request_timeout_s, nri.registration_timeout_s
    request_key, registration_key = keys["request_timeout_s"], keys["registration_timeout_s"]
    shown = format_duration(request)
    if request < 0 or registration < 0:
        key = request_key if request < 0 else registration_key
        findings.append(
            Finding(
                "problem",
                "the timeout is negative",
                _setting_place(nri, key),
                "defaults: 2s (request), 5s (registration)",
            )
        )
        return
    if request < 0.5:
        what = f"the request timeout is {shown}: on a busy node plugins may need longer, and are then disconnected"
        findings.append(Finding("warning", what, _setting_place(nri, request_key), "the default is 2s"))
    if request > 60:
        what = (
            f"the request timeout is {shown}: one unresponsive plugin delays containers that long; the kubelet waits 2m"
        )
        findings.append(Finding("warning", what, _setting_place(nri, request_key), "the default is 2s"))
    if registration < request:
        what = (
            f"the registration timeout ({format_duration(registration)}) is shorter than the request timeout ({shown})"
        )
        findings.append(Finding("warning", what, _setting_place(nri, registration_key), "the defaults are 5s and 2s"))


def _shared_socket(nri_settings: Sequence[RuntimeNri], findings: list[Finding]) -> None:
    """Find runtimes that share a socket path: plugins reach only the runtime that was started last."""
    active = [nri for nri in nri_settings if nri.enabled is not False and nri.connections]
    for number, nri in enumerate(active):
        for other in active[:number]:
            if nri.socket_path == other.socket_path:
                what = f"{other.name} and {nri.name} both use {nri.socket_path}: the last to start takes it over"
                key = _ROWS[nri.name].keys["socket_path"]
                findings.append(
                    Finding(
                        "problem",
                        what,
                        _setting_place(nri, key),
                        "give one runtime another path, or switch its NRI off",
                    )
                )


def findings_of(reading: Reading) -> list[Finding]:
    """Convert all remarks of a reading to findings."""
    return [finding(reading.runtime, remark) for remark in reading.remarks]


def finding(runtime: str, remark: Remark) -> Finding:
    """Convert a remark on a runtime's configuration to a finding."""
    text = texts_of(runtime, remark)
    return Finding(text.level, text.what, remark.where, text.next)
