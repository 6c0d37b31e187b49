"""Check an NRI socket: whether it exists, which users may connect, and which process listens."""

from __future__ import annotations

import os
import socket
import stat
import struct

from nri.cli.doctor import Finding
from nri.config.root import resolve_below
from nri.host import process
from nri.host.root import Root
from nri.text import plain

#: Process, user and group of a unix socket's peer: the kernel's struct ucred.
_CREDENTIALS = struct.Struct("iii")


def check(root: str, path: str, findings: list[Finding], timeout_s: float | None = None) -> bool:
    """Check the socket at `path` inside the root. A runtime has `timeout_s`, by default 2 s, to accept a connection.

    Returns whether a process listens there.
    """
    real = resolve_below(root, path)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        advice = "start the runtime; if it runs, its NRI is off, or it listens on another socket"
        findings.append(Finding("problem", "the socket does not exist", path, advice))
        return False
    except PermissionError:
        findings.append(
            Finding(
                "problem",
                "permission denied on the socket's folder",
                path,
                "run the doctor as root, as plugins run too",
            )
        )
        return False
    if not stat.S_ISSOCK(status.st_mode):
        advice = "specify the runtime's socket with --socket-path; or remove this file and restart the runtime"
        findings.append(Finding("problem", "not a socket", path, advice))
        return False
    _permissions(real, path, status, findings)
    return _listener(real, path, findings, timeout_s or 2.0)


def _permissions(real: str, path: str, status: os.stat_result, findings: list[Finding]) -> None:
    """Check which users may connect. A plugin can change every container of the node, so only the owner should."""
    if status.st_mode & stat.S_IWOTH:
        advice = "restart the runtime with a sane umask; until then: chmod 0700"
        findings.append(
            Finding(
                "problem",
                f"any user may connect (mode {status.st_mode & 0o777:04o}), which is as good as being root",
                path,
                advice,
            )
        )
    elif status.st_mode & stat.S_IWGRP and status.st_gid != 0:
        problem = (
            f"group {status.st_gid} may connect (mode {status.st_mode & 0o777:04o}), which is as good as being root"
        )
        findings.append(Finding("warning", problem, path, "check that this is intended"))
    if not os.access(real, os.W_OK):
        findings.append(
            Finding("problem", "this user may not connect: permission denied", path, "run the doctor as root")
        )


def _listener(real: str, path: str, findings: list[Finding], timeout_s: float) -> bool:
    inode = listening_inode(real)
    if inode:
        pid = _process_with_socket(inode)
    else:  # the last check, because a connection that does not register leaves a warning in the runtime's log
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(timeout_s)
            try:
                probe.connect(real)
            except OSError as error:
                reason = error.strerror or str(error)
                advice = (
                    "restart the runtime, which ended and left the socket behind"
                    if isinstance(error, ConnectionRefusedError)
                    else ""
                )
                findings.append(Finding("problem", f"no process listens: {reason.lower()}", path, advice))
                return False
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid = _CREDENTIALS.unpack(credentials)[0]
    findings.append(Finding("ok", f"{_name(pid)} listens", path))
    return True


def listening_inode(path: str) -> str:
    """The inode of the listening socket with this path, as the kernel lists it in this network namespace.

    Returns "" without a listening socket, or with several: a removed socket stays in
        the list while its process listens.
    """
    paths = {path, os.path.realpath(path)}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
            # Columns: Num RefCount Protocol Flags Type St Inode Path; flag 0x10000 is a listening socket.
            rows = [line.split(maxsplit=7) for line in table]
    except OSError:
        return ""
    inodes = [row[6] for row in rows if len(row) == 8 and row[7].strip() in paths and row[3] == "00010000"]
    return inodes[0] if len(inodes) == 1 else ""


def _process_with_socket(inode: str) -> int:
    """A process that has the socket open, or 0. Init is checked last, because it creates sockets for services."""
    host = Root("/")
    first, *other_pids = process.numbers(host) or [0]
    return next((pid for pid in (*other_pids, first) if process.has_socket(host, pid, inode)), 0)


def _name(pid: int) -> str:
    process_stat = process.read_stat(Root("/"), pid) if pid else None
    return f"{plain(process_stat.name)} (process {pid})" if process_stat else "a process outside this namespace"
