"""The seccomp profile of containers that ask for the runtime's default.

A call is allowed, or refused by name with EPERM, or unknown: that gets ENOSYS, so that programs that try a newer call
first fall back to the older one. What a capability makes useful is allowed with it. Three calls depend on their
arguments: `clone` must not make namespaces, `socket` must not reach the hypervisor, `personality` must not undo the
protection of memory. `clone3` hides its flags in memory, where no filter sees them: it gets ENOSYS, and C libraries use
`clone`. Next: `nri.engine.spec.seccomp_calls`, the names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nri.engine.spec.seccomp_calls import ALLOWED, BY_CAPABILITY, REFUSED

__all__ = ["default_profile"]

_EPERM, _ENOSYS = 1, 38
#: All CLONE_NEW flags: mount, cgroup, UTS, IPC, user, process and network namespaces.
_NEW_NAMESPACES = 0x7E020000
_AF_VSOCK = 40
#: Linux; Linux with 32 bits; both as they named themselves before 3.0; and the question which one it is.
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
#: The machine's architecture as uname has it, and those that its kernel runs programs of.
_ARCHITECTURES = {
    "x86_64": ("X86_64", "X86", "X32"),
    "aarch64": ("AARCH64", "ARM"),
    "armv7l": ("ARM",),
    "i686": ("X86",),
    "ppc64le": ("PPC64LE",),
    "riscv64": ("RISCV64",),
    "s390x": ("S390X", "S390"),
}


def default_profile(architecture: str, capabilities: Collection[str]) -> dict[str, Any]:
    """The ``linux.seccomp`` of a container with these capabilities.

    An architecture that is not in the table gets the profile without a list: the runtime then takes its own.
    """
    allowed = {name for names in ALLOWED.values() for name in names.split()}
    gated = {name for names in BY_CAPABILITY.values() for name in names.split()}
    for capability in capabilities:
        allowed |= set(BY_CAPABILITY.get(capability, "").split())
    administers = "CAP_SYS_ADMIN" in capabilities
    rules: list[dict[str, Any]] = [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}]
    if administers:
        rules.append({"names": ["clone", "clone3"], "action": "SCMP_ACT_ALLOW"})
    else:
        # On s390 the flags are the second argument.
        flags = 1 if architecture == "s390x" else 0
        rules.append(_allow("clone", flags, _NEW_NAMESPACES, "SCMP_CMP_MASKED_EQ"))
    rules.append(_allow("socket", 0, _AF_VSOCK, "SCMP_CMP_NE"))
    rules += [_allow("personality", 0, value, "SCMP_CMP_EQ") for value in _PERSONALITIES]
    refused = sorted((gated | set(REFUSED.split())) - allowed)
    rules.append({"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM})
    made: dict[str, Any] = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _ENOSYS,
        "syscalls": rules,
    }
    if architecture in _ARCHITECTURES:
        made["architectures"] = [f"SCMP_ARCH_{name}" for name in _ARCHITECTURES[architecture]]
    return made


def _allow(name: str, index: int, value: int, comparison: str) -> dict[str, Any]:
    """A rule for one argument. Of a masked comparison the value is the mask, and 0 what has to be left of it."""
    argument = {"index": index, "value": value, "op": comparison}
    if comparison == "SCMP_CMP_MASKED_EQ":
        argument["valueTwo"] = 0
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}
