"""The folder that HAMi's monitor shares with a container."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent.koordinator.gpu_folder import make_folder
from nri.agent.koordinator.node import Node
from nri.agent.model import Changes, Mount
from nri.agent.transports.hook_plugin import HookPlugin
from nri.host import Outcome, Root
from nri.testing import FakeRuntime
from tests.support import agents
from tests.support.hook_modes import CASES, MAIN, UID

NODE = Node()
LIBRARY = "/usr/local/vgpu/libvgpu.so"
CONTAINERS = "usr/local/vgpu/containers"
GPU = next(case for case in CASES if case.hook == "GPUEnvInject")


def wanting(source: str) -> Changes:
    return Changes(mounts=(Mount(LIBRARY, "bind", LIBRARY), Mount("/usr/local/vgpu", "bind", source)))


def settled() -> None:
    for thread in threading.enumerate():
        if thread.name == "nri-agent-remove":
            thread.join(20)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "usr/local/vgpu").mkdir(parents=True)
    return Root(tmp_path)


def test_the_folder_exists_and_is_writable_before_the_creation(root: Root, tmp_path: Path) -> None:
    parts = agents.parts(root, node=replace(GPU.base(), gpu_monitor=True))
    pod, container = GPU.pod.messages()
    with FakeRuntime() as runtime:
        reply = runtime.add(HookPlugin(parts)).create_container(pod, container)
    created = tmp_path / CONTAINERS / f"{UID}_{MAIN}"
    assert stat.S_IMODE(created.stat().st_mode) == 0o777
    assert {mount.source for mount in reply.message.mounts} >= {f"/{CONTAINERS}/{UID}_{MAIN}"}


def test_leftovers_of_an_earlier_container_are_removed_without_following_links(root: Root, tmp_path: Path) -> None:
    old = tmp_path / CONTAINERS / "uid_main/deep/er"
    old.mkdir(parents=True)
    (tmp_path / "precious").write_text("mine")
    (old / "link").symlink_to(tmp_path)
    (result,) = make_folder(root, wanting(f"/{CONTAINERS}/uid_main"), NODE)
    assert result.outcome is Outcome.APPLIED
    settled()
    assert [path.name for path in (tmp_path / CONTAINERS).iterdir()] == ["uid_main"]
    assert list((tmp_path / CONTAINERS / "uid_main").iterdir()) == []
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    "source", ["/etc", f"/{CONTAINERS}/..", f"/{CONTAINERS}/../../x", f"/{CONTAINERS}/a/b", f"/{CONTAINERS}/"]
)
def test_an_id_with_a_path_is_refused(root: Root, tmp_path: Path, source: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    (result,) = make_folder(root, wanting(source), NODE)
    assert result.outcome is Outcome.REFUSED
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_lock_folder_is_created(root: Root, tmp_path: Path) -> None:
    changes = Changes(mounts=(Mount("/tmp/vgpulock", "bind", "/tmp/vgpulock"),))
    (removed,) = make_folder(root, changes, NODE)
    assert removed.outcome is Outcome.GONE
    (tmp_path / "tmp").mkdir()
    (result,) = make_folder(root, changes, NODE)
    assert result.outcome is Outcome.APPLIED
    assert stat.S_IMODE((tmp_path / "tmp/vgpulock").stat().st_mode) == 0o1777
    assert make_folder(root, changes, NODE) == []


def test_without_a_monitor_there_is_no_folder(root: Root) -> None:
    assert make_folder(root, Changes(mounts=(Mount(LIBRARY, "bind", LIBRARY),)), NODE) == []


def test_a_machine_without_hami_is_reported(tmp_path: Path) -> None:
    (result,) = make_folder(Root(tmp_path), wanting(f"/{CONTAINERS}/uid_main"), NODE)
    assert result.outcome is Outcome.GONE


def test_a_folder_nested_deeper_than_the_descriptor_limit_is_removed(root: Root, tmp_path: Path) -> None:
    top = tmp_path / CONTAINERS
    (top / "uid_main").mkdir(parents=True)
    inner = os.open(top / "uid_main", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=inner)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
        deeper = os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = deeper
    os.close(inner)
    try:
        make_folder(root, wanting(f"/{CONTAINERS}/uid_main"), NODE)
        settled()
        assert [path.name for path in top.iterdir()] == ["uid_main"]
    finally:
        subprocess.run(["rm", "-rf", str(top)], check=True)  # the folders of a failed test are too deep for pytest
