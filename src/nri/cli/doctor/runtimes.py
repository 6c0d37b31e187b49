"""The runtimes' NRI settings: remarks on each file as findings, then each judged by itself and against the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.cli.doctor import Finding, engine
from nri.config import format_duration
from nri.config.runtimes.containerd.installations import installation_at
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.remark_texts import texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.runtimes.reading import Reading, Remark, RuntimeNri
    from nri.config.runtimes.runtime import Runtime

#: A unix socket's path has to fit into the kernel's address: 108 bytes with the zero at its end.
LONGEST_SOCKET = 107

_ROWS: dict[str, Runtime] = {row.name: row for row in (*RUNTIMES, engine.RUNTIME)}


def check(found: Sequence[RuntimeNri], findings: list[Finding], *, socket_given: bool = False) -> None:
    """Judge the runtimes by their configuration alone. With a socket named, a runtime that we do not know is fine."""
    if not found and socket_given:
        names = ", ".join(row.title for row in RUNTIMES)
        what = f"no configuration of {names} or nri-engine was found: only the socket is examined"
        findings.append(Finding("note", what, "/etc"))
    elif not found:
        step = (
            "to try NRI at once, run the engine that comes with it: nri engine check, then sudo nri engine serve "
            "(nri engine serve --dry DIR without root); or install "
            f"{' or '.join(row.title for row in RUNTIMES)}, or point --root to where their /etc is"
        )
        findings.append(Finding("problem", "no configuration of a runtime with NRI was found", "/etc", step))
    for nri in found:
        _enabled(nri, findings)
        if nri.enabled is not False:
            _connections(nri, findings)
            _socket_path(nri, findings)
            _timeouts(nri, findings)
    _shared_socket(found, findings)


def _where(nri: RuntimeNri, key: str) -> str:
    """Return the place where a key was set, or the file where it could be."""
    return nri.origin.get(key, f"{nri.path or _ROWS[nri.name].path}: {key}")


def _switch_on(nri: RuntimeNri) -> str:
    """Return what an operator does to turn NRI on: a file that is made anew at each start is not the one to change."""
    installation = installation_at(nri.path) if nri.path else None
    if installation is None:
        return _ROWS[nri.name].switch_on
    command = f"nri config-manager --file {nri.path}"
    if installation.templates:
        return f"{nri.path} is made anew at each start of {installation.name}: change its template, with {command}"
    return f"{command}, and restart {installation.name}"


def _enabled(nri: RuntimeNri, findings: list[Finding]) -> None:
    key, step = _ROWS[nri.name].keys["enabled"], _switch_on(nri)
    if nri.enabled:
        findings.append(Finding("ok", f"NRI is on in {nri.name}, socket {nri.socket_path}", _where(nri, key)))
    elif nri.enabled is False:
        by_default = "" if key in nri.origin else " by default"
        findings.append(Finding("problem", f"NRI is off in {nri.name}{by_default}", _where(nri, key), step))


def _connections(nri: RuntimeNri, findings: list[Finding]) -> None:
    if nri.connections:
        return
    key, step = _ROWS[nri.name].keys["connections"], _ROWS[nri.name].allow_connections
    what = f"connections are disabled: {nri.name} makes no socket, and only plugins in {nri.plugin_path} can run"
    findings.append(Finding("problem", what, _where(nri, key), f"{step}, or use `nri enable`"))


def _socket_path(nri: RuntimeNri, findings: list[Finding]) -> None:
    key = _ROWS[nri.name].keys["socket_path"]
    path = nri.socket_path
    if not path.startswith("/"):
        findings.append(
            Finding("problem", f'the socket\'s path "{path}" is not absolute', _where(nri, key), "start it with /")
        )
    if len(path.encode()) > LONGEST_SOCKET:
        what = f"the socket's path has {len(path.encode())} bytes, the kernel takes {LONGEST_SOCKET}"
        findings.append(Finding("problem", what, _where(nri, key), "choose a shorter one"))


def _timeouts(nri: RuntimeNri, findings: list[Finding]) -> None:
    """Find timeouts that make plugins fail on a busy node, or hold up pods for long."""
    keys = _ROWS[nri.name].keys
    request, registration = nri.request_timeout_s, nri.registration_timeout_s
    request_key, registration_key = keys["request_timeout_s"], keys["registration_timeout_s"]
    shown = format_duration(request)
    if request < 0 or registration < 0:
        key = request_key if request < 0 else registration_key
        findings.append(
            Finding(
                "problem", "a timeout below zero", _where(nri, key), "the default is 2s (request), 5s (registration)"
            )
        )
        return
    if request < 0.5:
        what = f"the request timeout is {shown}: on a busy node plugins answer later now and then, and are cut off"
        findings.append(Finding("warning", what, _where(nri, request_key), "the default is 2s"))
    if request > 60:
        what = f"the request timeout is {shown}: one silent plugin delays a container for so long; the kubelet waits 2m"
        findings.append(Finding("warning", what, _where(nri, request_key), "the default is 2s"))
    if registration < request:
        what = (
            f"the registration timeout ({format_duration(registration)}) is shorter than the request timeout ({shown})"
        )
        findings.append(Finding("warning", what, _where(nri, registration_key), "the defaults are 5s and 2s"))


def _shared_socket(found: Sequence[RuntimeNri], findings: list[Finding]) -> None:
    """Find runtimes with one socket path: each takes the path over, and no plugin reaches the first one any more."""
    active = [nri for nri in found if nri.enabled is not False and nri.connections]
    for number, nri in enumerate(active):
        for other in active[:number]:
            if nri.socket_path == other.socket_path:
                what = f"{other.name} and {nri.name} both listen on {nri.socket_path}: the later one takes it over"
                key = _ROWS[nri.name].keys["socket_path"]
                findings.append(
                    Finding("problem", what, _where(nri, key), "give one of them another path, or switch its NRI off")
                )


def findings_of(reading: Reading) -> list[Finding]:
    """Put all remarks of a reading into words."""
    return [finding(reading.runtime, remark) for remark in reading.remarks]


def finding(runtime: str, remark: Remark) -> Finding:
    """Put one remark on a runtime's configuration into words."""
    words = texts_of(runtime, remark)
    return Finding(words.level, words.what, remark.where, words.next)
