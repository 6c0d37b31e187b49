"""The process that holds a pod's process namespace, for pods whose containers share one.

One job: a program of some 190 bytes that waits, so that a pod needs neither an image nor a program of the node; it is
written here, word by word, for the machines that there are, and run as a container of the OCI runtime, in the pod's
other namespaces. Rules: it ignores SIGCHLD, so that the kernel itself takes away what is orphaned in the pod; it ends
by SIGKILL alone. Next: :mod:`nri.engine.lifecycle.inventory`.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nri.engine.support.errors import EngineError

__all__ = ["PROGRAM", "holder_program", "holder_spec", "make_root"]

PROGRAM = "/pause"
_BASE, _HEADERS = 0x400000, 64 + 56
#: The number of each machine in ELF, and the code: rt_sigaction(SIGCHLD, action, NULL, 8), and then to wait for ever.
#: The action is behind the code: SIG_IGN, SA_NOCLDWAIT, and no more.
_CODE = {
    "x86_64": (62, bytes.fromhex(
        "b80d000000 bf11000000 488d3513000000 31d2 41ba08000000 0f05"  # rt_sigaction is 13, SIGCHLD 17
        "b822000000 0f05 ebf7"  # pause is 34; and again
    )),
    "aarch64": (183, struct.pack(
        "<13I",
        0xD2800220, 0x10000181, 0xD2800002, 0xD2800103, 0xD28010C8, 0xD4000001,  # rt_sigaction is 134
        0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001,  # ppoll of nothing, 73
        0x17FFFFFA,  # and again
    )),
}  # fmt: skip
_ACTION = struct.pack("<4Q", 1, 2, 0, 0)


def holder_program(architecture: str = "") -> bytes:
    """The program as an ELF file. Raises EngineError for a machine that it is not written for."""
    architecture = architecture or platform.machine()
    if architecture not in _CODE:
        raise EngineError(f"pods cannot share a process namespace on {architecture}: no program to hold one")
    machine, code = _CODE[architecture]
    size = _HEADERS + len(code) + len(_ACTION)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code + _ACTION


def make_root(bundle: Path) -> Path:
    """The root file system of a holder, in its bundle. Raises OSError, EngineError."""
    root = bundle / "rootfs"
    for name in ("proc", "dev", "sys"):
        (root / name).mkdir(parents=True, exist_ok=True)
    program = root / PROGRAM.lstrip("/")
    program.write_bytes(holder_program())
    program.chmod(0o555)
    root.chmod(0o755)
    return root


def holder_spec(spec: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """The spec of what holds a pod, in namespaces that are pinned already; sysctls and host name are theirs. Pure."""
    made = {**spec, "linux": {**spec["linux"]}}
    made.pop("hostname", None)
    made["linux"].pop("sysctl", None)
    made["linux"]["namespaces"] = [
        {**row, "path": paths[row["type"]]} if row["type"] in paths else row for row in spec["linux"]["namespaces"]
    ]
    return made
