"""The tables of system calls have no duplicates and no contradictions."""

from __future__ import annotations

from itertools import combinations

import pytest

from nri.engine.spec.capabilities import DEFAULT, KNOWN
from nri.engine.spec.seccomp import ALLOWED, BY_CAPABILITY, REFUSED, default_profile, host_profile


def action(profile: dict, name: str) -> list[tuple[str, object, bool]]:
    """What the rules say of a call: action, errno, whether it depends on arguments."""
    return [
        (rule["action"], rule.get("errnoRet"), "args" in rule) for rule in profile["syscalls"] if name in rule["names"]
    ]


ALWAYS, NEVER = [("SCMP_ACT_ALLOW", None, False)], [("SCMP_ACT_ERRNO", 1, False)]


def test_unknown_calls_return_enosys() -> None:
    profile = default_profile("x86_64", DEFAULT)
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert profile["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    assert action(profile, "clone3") == []
    assert "architectures" not in default_profile("vax", ())


@pytest.mark.parametrize("name", ["read", "execve", "openat2", "futex", "rseq", "epoll_pwait2", "chroot", "fchmodat2"])
def test_common_calls_are_allowed(name: str) -> None:
    assert action(default_profile("x86_64", DEFAULT), name) == ALWAYS


@pytest.mark.parametrize(
    "name",
    ["mount", "unshare", "setns", "bpf", "keyctl", "add_key", "kexec_load", "init_module", "reboot", "io_uring_setup",
     "userfaultfd", "open_by_handle_at", "iopl", "settimeofday", "perf_event_open", "swapon", "syslog", "pivot_root"],
)  # fmt: skip
def test_dangerous_calls_are_denied(name: str) -> None:
    assert action(default_profile("x86_64", DEFAULT), name) == NEVER


@pytest.mark.parametrize(("capability", "names"), BY_CAPABILITY.items())
def test_a_capability_allows_its_calls(capability: str, names: str) -> None:
    for name in names.split():
        assert action(default_profile("x86_64", (capability,)), name) == ALWAYS
        assert action(default_profile("x86_64", ()), name) == NEVER


def test_creating_namespaces_requires_sys_admin() -> None:
    (rule,) = [entry for entry in default_profile("x86_64", ())["syscalls"] if entry["names"] == ["clone"]]
    assert rule["args"] == [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    assert action(default_profile("x86_64", ("CAP_SYS_ADMIN",)), "clone") == ALWAYS
    assert action(default_profile("x86_64", ("CAP_SYS_ADMIN",)), "clone3") == ALWAYS
    (rule,) = [entry for entry in default_profile("s390x", ())["syscalls"] if entry["names"] == ["clone"]]
    assert rule["args"][0]["index"] == 1


def test_no_call_is_in_contradictory_lists() -> None:
    allowed = " ".join(ALLOWED.values()).split()
    gated = {name for names in BY_CAPABILITY.values() for name in names.split()}
    assert len(allowed) == len(set(allowed))
    assert not set(allowed) & gated
    assert not set(REFUSED.split()) & (set(allowed) | gated)
    assert not {"clone", "clone3", "socket", "personality"} & (set(allowed) | gated)
    assert set(BY_CAPABILITY) <= set(KNOWN)


TABLES = {
    "allowed": [name for names in ALLOWED.values() for name in names.split()],
    "by capability": sorted({name for names in BY_CAPABILITY.values() for name in names.split()}),
    "refused": REFUSED.split(),
}


def test_no_name_is_in_two_tables() -> None:
    for one, other in combinations(TABLES, 2):
        assert not set(TABLES[one]) & set(TABLES[other]), f"{one} and {other}"


def test_names_are_unique_and_sorted() -> None:
    assert all(len(names) == len(set(names)) for names in TABLES.values())
    for names in (*ALLOWED.values(), *BY_CAPABILITY.values(), REFUSED):
        assert names.split() == sorted(names.split())


def test_names_and_capabilities_are_valid() -> None:
    assert all(name.isascii() and name.replace("_", "a").isalnum() for names in TABLES.values() for name in names)
    assert set(BY_CAPABILITY) <= set(KNOWN)


def test_calls_of_known_escapes_are_denied() -> None:
    assert {"keyctl", "add_key", "io_uring_setup", "userfaultfd", "kexec_load"} <= set(TABLES["refused"])


DOCKERS = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 1,
    "archMap": [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": None},
    ],
    "syscalls": [
        {"name": "read", "action": "SCMP_ACT_ALLOW", "args": None, "comment": "old"},
        {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}, "excludes": {}},
        {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38, "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64", "x32"]}},
        {"names": ["sync"], "action": "SCMP_ACT_ALLOW", "excludes": {"arches": ["amd64"]}},
    ],
}


def test_a_docker_profile_becomes_a_spec_profile() -> None:
    assert host_profile(DOCKERS, "x86_64", {"CAP_SYS_ADMIN"}) == {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": [
            {"names": ["read"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["mount"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW"},
        ],
    }
    elsewhere = host_profile(DOCKERS, "aarch64", ())
    assert elsewhere["architectures"] == ["SCMP_ARCH_AARCH64"]
    assert [rule["names"] for rule in elsewhere["syscalls"]] == [["read"], ["clone"], ["sync"]]
    assert elsewhere["syscalls"][1]["errnoRet"] == 38


def test_a_spec_profile_is_unchanged() -> None:
    rule = {"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]}
    profile = {"defaultAction": "SCMP_ACT_LOG", "flags": [], "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [rule]}
    assert host_profile(profile, "x86_64", ()) == profile


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"archMap": [{}], "architectures": ["SCMP_ARCH_X86"]}, "architectures and archMap exclude each other"),
        ({"syscalls": {"names": ["read"]}}, "syscalls must be a list of objects"),
        ({"syscalls": [{"name": "read", "names": ["write"]}]}, "the rule of read has both name and names"),
        ({"syscalls": [{"names": ["read"], "includes": ["CAP_KILL"]}]}, "includes and excludes must be objects"),
        ({"defaultAction": None}, "defaultAction is missing"),
    ],
)
def test_an_invalid_profile_is_an_error(more: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        host_profile({"defaultAction": "SCMP_ACT_LOG", **more}, "x86_64", ())
