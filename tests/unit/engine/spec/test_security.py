from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Machine, localhost_profile
from nri.engine.spec.security import apparmor, check_selinux, paths, seccomp
from nri.errors import RequestError

Context = pb.LinuxContainerSecurityContext
HERE = Machine()
FILTER = {"defaultAction": "SCMP_ACT_ALLOW"}
RUNTIME, FREE, LOCAL = (
    pb.SecurityProfile(profile_type=kind)
    for kind in (pb.SecurityProfile.RuntimeDefault, pb.SecurityProfile.Unconfined, pb.SecurityProfile.Localhost)
)
LOCAL.localhost_ref = "/p.json"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (Context(), None),
        (Context(seccomp=FREE), None),
        (Context(seccomp=RUNTIME, privileged=True), None),
        (Context(seccomp=LOCAL), "SCMP_ACT_ALLOW"),
        (Context(seccomp=RUNTIME), "SCMP_ACT_ERRNO"),
        (Context(seccomp_profile_path="unconfined"), None),
        (Context(seccomp_profile_path="docker/default"), "SCMP_ACT_ERRNO"),
        (Context(seccomp_profile_path="localhost//p.json"), "SCMP_ACT_ALLOW"),
        (Context(seccomp_profile_path="nonsense", seccomp=FREE), None),
    ],
)
def test_the_request_selects_the_seccomp_profile(context: Context, expected: str | None) -> None:
    profile = seccomp(context, HERE, (), FILTER)
    assert (profile and profile["defaultAction"]) == expected


def test_the_path_of_a_host_profile_is_returned() -> None:
    assert localhost_profile(Context(seccomp=LOCAL)) == "/p.json"
    assert localhost_profile(Context(seccomp=RUNTIME)) == ""
    assert localhost_profile(Context(seccomp=LOCAL, privileged=True)) == ""
    assert localhost_profile(Context(seccomp_profile_path="localhost//q")) == "/q"
    relative = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="q")
    with pytest.raises(RequestError, match=r'localhost_ref: "q": must be an absolute path'):
        localhost_profile(Context(seccomp=relative))


@pytest.mark.parametrize(
    ("context", "machine", "local", "problem"),
    [
        (Context(seccomp=RUNTIME), Machine(seccomp=False), None, r'"RuntimeDefault": this machine does not filter'),
        (Context(seccomp=LOCAL), HERE, None, r'"/p.json": is not a seccomp profile'),
        (Context(seccomp=LOCAL), HERE, {"syscalls": []}, r"defaultAction is missing"),
        (Context(seccomp_profile_path="nonsense"), HERE, None, r'seccomp_profile_path: "nonsense": must be'),
        (Context(seccomp=pb.SecurityProfile(profile_type=7)), HERE, None, r"profile_type: 7: is unknown"),
    ],
)
def test_an_unavailable_profile_is_an_error(context: Context, machine: Machine, local: dict, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        seccomp(context, machine, (), local)


@pytest.mark.parametrize(
    ("context", "machine", "default", "expected", "noted"),
    [
        (Context(), Machine(apparmor=True), "nri", "", False),
        (Context(apparmor=RUNTIME), Machine(apparmor=True), "nri", "nri", False),
        (Context(apparmor=RUNTIME), Machine(apparmor=True), "", "", True),
        (Context(apparmor=RUNTIME), HERE, "nri", "", True),
        (Context(apparmor=LOCAL), Machine(apparmor=True), "nri", "/p.json", False),
        (Context(apparmor=LOCAL, privileged=True), HERE, "nri", "", False),
        (Context(apparmor_profile="localhost/mine"), Machine(apparmor=True), "", "mine", False),
        (Context(apparmor_profile="runtime/default"), Machine(apparmor=True), "nri", "nri", False),
    ],
)
def test_the_request_selects_the_apparmor_profile(
    context: Context, machine: Machine, default: str, expected: str, noted: bool
) -> None:
    notes: list[str] = []
    assert apparmor(context, machine, default, notes) == expected
    assert bool(notes) == noted


def test_a_host_profile_without_apparmor_is_an_error() -> None:
    with pytest.raises(RequestError, match=r'apparmor\.localhost_ref: "/p.json": this machine has no AppArmor'):
        apparmor(Context(apparmor=LOCAL), HERE, "", [])


def test_selinux_labels_are_refused_with_selinux_and_noted_without() -> None:
    label, notes = pb.SELinuxOption(type="spc_t", level="s0"), []
    check_selinux(label, True, HERE, notes)
    assert notes == ["linux.security_context.selinux_options: spc_t:s0 is ignored: this machine has no SELinux"]
    with pytest.raises(RequestError, match=r'selinux_options: "spc_t:s0": SELinux labels are not supported'):
        check_selinux(label, False, Machine(selinux=True), notes)
    check_selinux(pb.SELinuxOption(), True, Machine(selinux=True), notes)
    assert "selinux_relabel is ignored" in notes[-1]


def test_masked_paths_come_from_the_request_unless_privileged() -> None:
    context = Context(masked_paths=["/proc/keys"], readonly_paths=["/proc/sys"])
    assert paths(context) == {"maskedPaths": ["/proc/keys"], "readonlyPaths": ["/proc/sys"]}
    context.privileged = True
    assert paths(context) == {}
    with pytest.raises(RequestError, match=r'masked_paths\[0\]: "x": must be an absolute path'):
        paths(Context(masked_paths=["x"]))
