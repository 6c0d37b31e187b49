"""The engine's cgroups, on file trees of both versions."""

import os
import signal
from pathlib import Path
from subprocess import Popen

import pytest

from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.support.errors import EngineError


def test_on_v1_a_process_is_placed_in_all_required_hierarchies(tmp_path: Path) -> None:
    for name in ("memory", "cpu,cpuacct", "pids", "devices", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    Cgroups(v2=False, root=tmp_path).place("/pods/conmon-1")(42)
    actual = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("cgroup.procs")}
    assert actual == {f"{name}/pods/conmon-1/cgroup.procs": "42" for name in ("memory", "cpu,cpuacct", "pids")}


def test_on_v2_a_process_is_placed_in_one_hierarchy(tmp_path: Path) -> None:
    cgroups = Cgroups(v2=True, root=tmp_path)
    cgroups.place("/pods/conmon-1")(42)
    assert (tmp_path / "pods/conmon-1/cgroup.procs").read_text() == "42"
    os.unlink(tmp_path / "pods/conmon-1/cgroup.procs")  # a real one's files go with it
    cgroups.remove("/pods")
    assert not [*tmp_path.iterdir()]


def test_a_cgroup_in_use_and_the_root_are_not_removed(tmp_path: Path) -> None:
    cgroups = Cgroups(v2=True, root=tmp_path)
    cgroups.place("/pods/one")(42)
    cgroups.remove("/pods/one")
    cgroups.remove("/")
    cgroups.remove("/absent")
    assert (tmp_path / "pods/one/cgroup.procs").exists()


def test_processes_of_a_cgroup_are_killed_and_reused_pids_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups, file = Cgroups(v2=False, root=tmp_path), tmp_path / "pids/pods/c1/cgroup.procs"
    for name in ("memory", "pids"):
        (tmp_path / name / "pods/c1").mkdir(parents=True)
    with Popen(["sleep", "1000"]) as popen, Popen(["sleep", "1000"]) as stranger:
        file.write_text(f"{popen.pid}\n0\n999999999\n")
        cgroups.end("/pods/c1")
        assert popen.wait(20) == -signal.SIGKILL
        file.write_text(f"{stranger.pid}\n")
        opened = os.pidfd_open

        def late(pid: int) -> int:
            file.write_text("")  # it ended before it was opened, and another one has its number
            return opened(pid)

        monkeypatch.setattr(os, "pidfd_open", late)
        cgroups.end("/pods/c1")
        cgroups.end("/absent")
        monkeypatch.undo()
        assert stranger.poll() is None
        stranger.kill()


def test_a_path_out_of_the_hierarchies_is_refused(tmp_path: Path) -> None:
    cgroups = Cgroups(v2=True, root=tmp_path / "cgroup")
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "precious").mkdir()
    with pytest.raises(EngineError, match=r"must not contain"):
        cgroups.remove("/../precious")
    with pytest.raises(EngineError, match=r"must not contain"):
        cgroups.end("/a/../../precious")
    assert (tmp_path / "precious").exists()


def test_processes_of_nested_cgroups_are_killed_and_never_those_of_the_root(tmp_path: Path) -> None:
    cgroups = Cgroups(v2=True, root=tmp_path)
    (tmp_path / "pods/c1/deep/er").mkdir(parents=True)
    with Popen(["sleep", "1000"]) as child, Popen(["sleep", "1000"]) as stranger:
        try:
            (tmp_path / "cgroup.procs").write_text(f"{stranger.pid}\n")
            (tmp_path / "pods/c1/deep/er/cgroup.procs").write_text(f"{child.pid}\n")
            (tmp_path / "pods/c1/cgroup.freeze").write_text("1")
            for top in ("", "/", "/."):
                cgroups.end(top)
            cgroups.end("/pods/c1")
            assert child.wait(20) == -signal.SIGKILL
            assert (tmp_path / "pods/c1/cgroup.freeze").read_text() == "0"
            assert stranger.poll() is None
        finally:
            child.kill()
            stranger.kill()


def test_cgroups_are_found_by_the_containers_name(tmp_path: Path) -> None:
    for path in ("pids/pods/p1/c1/inner/c1", "memory/pods/p1/conmon-c1", "pids/x.slice/nri-c1.scope", "pids/c12"):
        (tmp_path / path).mkdir(parents=True)
    assert Cgroups(v2=False, root=tmp_path).find("c1") == ["/pods/p1/c1", "/pods/p1/conmon-c1", "/x.slice/nri-c1.scope"]
