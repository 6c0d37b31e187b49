"""The socket itself: whether it is there, who may connect, which process listens.

Rules: a socket is connected to only where that cannot be seen otherwise, because every connection that does not
register leaves a warning in the runtime's log; so the process is named, and whether it speaks NRI is for a person to
judge. Next: `nri.cli.doctor.plugins`.
"""

from __future__ import annotations

import os
import socket
import stat
import struct

from nri.cli.doctor import Finding
from nri.config.root import inside
from nri.host import process
from nri.host.root import Root
from nri.text import plain

#: Who is at the other end of a unix socket: process, user, group; the kernel's struct ucred.
_CREDENTIALS = struct.Struct("iii")


def check(root: str, path: str, findings: list[Finding], timeout_s: float | None = None) -> bool:
    """Judge the socket at `path`, as seen inside the root; a runtime has 2 s, or `timeout_s`, to take a connection.

    Returns whether a process listens there.
    """
    real = inside(root, path)
    try:
        found = os.stat(real)
    except FileNotFoundError:
        step = "start the runtime; if it runs, NRI is off in it, or it listens elsewhere"
        findings.append(Finding("problem", "there is no socket", path, step))
        return False
    except PermissionError:
        findings.append(
            Finding("problem", "permission denied on its folder", path, "run the doctor as root, as plugins are")
        )
        return False
    if not stat.S_ISSOCK(found.st_mode):
        step = "name the runtime's socket with --socket-path; if it belongs here, move this away, restart the runtime"
        findings.append(Finding("problem", "it is not a socket", path, step))
        return False
    _permissions(real, path, found, findings)
    return _listener(real, path, findings, timeout_s or 2.0)


def _permissions(real: str, path: str, found: os.stat_result, findings: list[Finding]) -> None:
    """Judge who may connect: that is to change every container of the node, so only its owner should."""
    if found.st_mode & stat.S_IWOTH:
        step = "restart the runtime with a sane umask; until then: chmod 0700"
        findings.append(
            Finding(
                "problem",
                f"any user may connect (mode {found.st_mode & 0o777:04o}), which is as good as being root",
                path,
                step,
            )
        )
    elif found.st_mode & stat.S_IWGRP and found.st_gid != 0:
        what = f"group {found.st_gid} may connect (mode {found.st_mode & 0o777:04o}), which is as good as being root"
        findings.append(Finding("warning", what, path, "is that intended?"))
    if not os.access(real, os.W_OK):
        findings.append(
            Finding("problem", "this user may not connect: permission denied", path, "run the doctor as root")
        )


def _listener(real: str, path: str, findings: list[Finding], timeout_s: float) -> bool:
    inode = listed(real)
    if inode:
        pid = _holder(inode)
    else:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(timeout_s)
            try:
                probe.connect(real)
            except OSError as error:
                reason = error.strerror or str(error)
                step = (
                    "the runtime ended and left it behind: restart the runtime"
                    if isinstance(error, ConnectionRefusedError)
                    else ""
                )
                findings.append(Finding("problem", f"no process listens: {reason.lower()}", path, step))
                return False
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid = _CREDENTIALS.unpack(credentials)[0]
    findings.append(Finding("ok", f"{_name(pid)} listens", path))
    return True


def listed(path: str) -> str:
    """The inode of the listening socket by this name that the kernel lists in this network namespace.

    "" for none, and for several: one that was removed while its process listens stays in the list beside its successor.
    """
    wanted = {path, os.path.realpath(path)}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
            # Columns: Num RefCount Protocol Flags Type St Inode Path; flag 0x10000 is a listening socket.
            rows = [line.split(maxsplit=7) for line in table]
    except OSError:
        return ""
    found = [row[6] for row in rows if len(row) == 8 and row[7].strip() in wanted and row[3] == "00010000"]
    return found[0] if len(found) == 1 else ""


def _holder(inode: str) -> int:
    """The process that has a socket open, 0 for none; init last, which keeps those that it has made for others."""
    host = Root("/")
    first, *others = process.numbers(host) or [0]
    return next((pid for pid in (*others, first) if process.has_socket(host, pid, inode)), 0)


def _name(pid: int) -> str:
    found = process.read_stat(Root("/"), pid) if pid else None
    return f"{plain(found.name)} (process {pid})" if found else "a process that cannot be seen from here"
