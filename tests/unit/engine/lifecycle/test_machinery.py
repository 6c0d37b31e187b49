"""The tools of an engine with changed settings, and resources that a machine does not support."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import ContainerConfig, EngineConfig, OciRuntime
from nri.engine.lifecycle.machinery import Machinery, fit
from nri.engine.lifecycle.places import Places
from nri.engine.spec import Machine
from nri.errors import RequestError


def test_a_complete_machine_supports_all_resources() -> None:
    resources = {"unified": {"memory.high": "1"}, "hugepageLimits": [{"pageSize": "2MB"}], "memory": {"swap": 1}}
    before = {**resources}
    assert fit(resources, Machine()) == [] and resources == before


def test_unsupported_resources_are_omitted_and_named() -> None:
    resources = {"unified": {"b": "1", "a": "2"}, "hugepageLimits": [{}], "memory": {"limit": 5, "swap": 9}, "cpu": {}}
    lines = fit(resources, Machine(cgroup_v2=False, hugetlb=False, swap_limit=False))
    assert [line.partition(":")[0] for line in lines] == ["unified (a, b)", "hugepage_limits", "memory.swap"]
    assert resources == {"memory": {"limit": 5}, "cpu": {}}


def test_swap_equal_to_the_memory_limit_is_omitted_silently() -> None:
    resources = {"memory": {"limit": 5, "swap": 5}}
    assert fit(resources, Machine(swap_limit=False)) == [] and resources == {"memory": {"limit": 5}}


def test_a_runtime_that_is_created_during_a_reload_gets_the_new_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def config(timeout: float) -> EngineConfig:
        runtimes = {"runc": OciRuntime("runc", timeout=timeout)}
        return EngineConfig(root=tmp_path / "root", state=tmp_path / "state", runtimes=runtimes)

    machinery = Machinery(config(10.0), Places(tmp_path / "root", tmp_path / "state"))
    files, inside, resume = machinery.read_files(config(20.0)), threading.Event(), threading.Event()

    def which(program: str) -> str:
        inside.set()
        assert resume.wait(20)
        return program

    monkeypatch.setattr(shutil, "which", which)
    use = threading.Thread(target=machinery.runtime, args=("runc",))
    use.start()
    assert inside.wait(20)
    reload = threading.Thread(target=machinery.configure, args=(files,))
    reload.start()
    reload.join(0.1)
    resume.set()
    for thread in (use, reload):
        thread.join()
    assert machinery.runtime("runc").timeout_s == machinery.config.runtimes["runc"].timeout == 20.0


def test_a_seccomp_profile_that_cannot_be_read_is_an_error_of_the_request(tmp_path: Path) -> None:
    containers = ContainerConfig(seccomp_root=tmp_path / "profiles")
    config = EngineConfig(root=tmp_path / "root", state=tmp_path / "state", containers=containers)
    machinery = Machinery(config, Places(config.root, config.state))
    containers.seccomp_root.mkdir()
    (containers.seccomp_root / "loop").symlink_to("loop")
    (containers.seccomp_root / "outside").symlink_to("/proc/self")
    os.mkfifo(containers.seccomp_root / "pipe")
    (containers.seccomp_root / "long").write_bytes(b" " * (5 << 20) + b"{}")
    for name, reason in (
        ("loop", "Too many levels of symbolic links"), ("outside/environ", "cannot be read"), ("none", "No such file"),
        ("pipe", "not a regular file"), ("long", "longer than 4194304 bytes"), ("../x", "must be below"),
    ):  # fmt: skip
        path = f"{containers.seccomp_root}/{name}"
        profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=path)
        with pytest.raises(RequestError, match=reason):
            machinery.seccomp(pb.LinuxSandboxSecurityContext(seccomp=profile))
    (tmp_path / "loop").symlink_to("loop")
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=str(tmp_path / "loop"))
    with pytest.raises(RequestError, match="must be below"):
        machinery.seccomp(pb.LinuxSandboxSecurityContext(seccomp=profile))
