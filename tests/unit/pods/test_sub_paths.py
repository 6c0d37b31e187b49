"""Sub-paths of volumes, in volumes that a container has prepared for an attack."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.engine.support.kernel import detach_below
from nri.errors import NriError
from nri.host.root import open_below
from nri.pods import sub_paths
from nri.pods.sub_paths import SubPath, bind
from tests.support.needs import need_root

#: A program that exchanges two names without a pause: renameat2(2) with RENAME_EXCHANGE.
EXCHANGE = """
import ctypes, os, sys
libc, (x, y) = ctypes.CDLL(None), map(os.fsencode, sys.argv[1:])
while True:
    libc.renameat2(-100, x, -100, y, 2)
"""


class Pod:
    """A volume, a file outside of it, and the private folder of targets."""

    def __init__(self, folder: Path) -> None:
        self.volume, self.outside, self.targets = folder / "volume", folder / "outside", folder / "targets"
        for path in (self.volume, self.outside, self.targets):
            path.mkdir(0o755)
        (self.outside / "secret").write_text("secret")
        self._number = 0

    def bind(self, path: str) -> Path:
        self._number += 1
        target = self.targets / "app" / str(self._number)
        bind(SubPath(str(self.volume), path, str(target), "f:3"))
        return target


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    need_root()
    pod = Pod(tmp_path)
    try:
        yield pod
    finally:
        detach_below(pod.targets)


def test_a_folder_and_a_file_of_a_volume_are_bound_to_the_targets(pod: Pod) -> None:
    (pod.volume / "a/b").mkdir(parents=True)
    (pod.volume / "a/b/file").write_text("x")
    assert (pod.bind("a/b") / "file").read_text() == "x"
    assert pod.bind("./a//b/file").read_text() == "x"
    assert [*pod.bind(".").iterdir()] == [pod.targets / "app/3/a"]


def test_a_missing_path_becomes_folders_with_the_mode_of_the_volume(pod: Pod) -> None:
    pod.volume.chmod(0o2770)
    os.chown(pod.volume, 0, 55)
    (pod.volume / "a").mkdir(0o700)
    bound = pod.bind("a/b/c").stat()
    assert (stat.S_IMODE(bound.st_mode), bound.st_uid) == (0o2770, 0)
    assert bound.st_ino == (pod.volume / "a/b/c").stat().st_ino
    assert stat.S_IMODE((pod.volume / "a").stat().st_mode) == 0o2700, "a folder that existed keeps its mode"


@pytest.mark.parametrize("path", ["link", "a/link", "a/b/link", "link/outside", "link/new", "a/link/new/deep", "up"])
def test_a_link_out_of_the_volume_is_refused_and_nothing_is_created(pod: Pod, path: str) -> None:
    (pod.volume / "a/b").mkdir(parents=True)
    for folder in ("", "a", "a/b"):
        (pod.volume / folder / "link").symlink_to(pod.outside)
    (pod.outside / "outside").mkdir()
    (pod.volume / "up").symlink_to("../outside")
    before = sorted(pod.outside.rglob("*"))
    with pytest.raises(NriError, match=rf"f:3: volumeMounts.subPath: {path}: leads out of the volume, to .*/outside"):
        pod.bind(path)
    assert sorted(pod.outside.rglob("*")) == before and [*pod.targets.iterdir()] == []


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("/", "leads out of the volume, to /"),
        ("/proc/self/root", "leads out of the volume, to /"),
        ("/proc/self/fd/0", "leads out of the volume"),
        ("nowhere", "a broken link"),
        ("link", "the path contains a link that was just created, or too many links"),
        ("file/x", "Not a directory"),
    ],
)
def test_a_link_that_leads_to_nothing_usable_is_refused(pod: Pod, target: str, error: str) -> None:
    (pod.volume / "file").touch()
    (pod.volume / "link").symlink_to(target)
    with pytest.raises(NriError, match=error):
        pod.bind("link")
    assert sorted(path.name for path in pod.volume.iterdir()) == ["file", "link"]


def test_links_inside_the_volume_are_followed_as_by_the_kubelet(pod: Pod) -> None:
    (pod.volume / "releases/3").mkdir(parents=True)
    (pod.volume / "current").symlink_to("releases/3")
    (pod.volume / "absolute").symlink_to(pod.volume / "releases")
    inode = (pod.volume / "releases/3").stat().st_ino
    assert pod.bind("current").stat().st_ino == pod.bind("absolute/3").stat().st_ino == inode
    assert pod.bind("current/new").is_dir() and (pod.volume / "releases/3/new").is_dir()


def test_a_long_chain_of_links_is_an_error(pod: Pod) -> None:
    for number in range(3000):
        (pod.volume / f"l{number}").symlink_to(f"l{number + 1}")
    with pytest.raises(NriError, match="too many links"):
        pod.bind("l0")


def test_pipes_and_sockets_are_bound_without_being_opened(pod: Pod) -> None:
    os.mkfifo(pod.volume / "pipe")
    assert stat.S_ISFIFO(pod.bind("pipe").stat().st_mode)


@pytest.mark.parametrize("path", ["x", "x/new"])
def test_a_link_that_appears_right_after_the_check_is_refused(
    pod: Pod, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod.volume / "x").mkdir()

    def exchange_and_open(*arguments: object, **options: object) -> int:
        (pod.volume / "x").rename(pod.volume / "y")
        (pod.volume / "x").symlink_to(pod.outside)
        return open_below(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(sub_paths, "open_below", exchange_and_open)
    with pytest.raises(NriError, match=f"f:3: volumeMounts.subPath: {path}: the path contains a link"):
        pod.bind(path)
    assert [path.name for path in pod.outside.iterdir()] == ["secret"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", ["x", "x/new{}"])
def test_a_link_that_changes_constantly_never_leads_out(pod: Pod, path: str) -> None:
    (pod.volume / "x").mkdir()
    (pod.volume / "y").symlink_to(pod.outside)
    outcomes = {"bound": 0, "refused": 0}
    with subprocess.Popen([sys.executable, "-c", EXCHANGE, pod.volume / "x", pod.volume / "y"]) as exchanging:
        try:
            for number in range(1500):
                try:
                    bound = pod.bind(path.format(number))
                except NriError:
                    outcomes["refused"] += 1
                else:
                    outcomes["bound"] += 1
                    assert not (bound / "secret").exists()
        finally:
            exchanging.kill()
    assert all(outcomes.values()), f"the race was not tried: {outcomes}"
    assert [path.name for path in pod.outside.iterdir()] == ["secret"]


def test_unbinding_leaves_the_volume_and_no_mount(pod: Pod) -> None:
    (pod.volume / "a").mkdir()
    (pod.volume / "a/file").touch()
    target = pod.bind("a")
    detach_below(pod.targets)
    assert [*target.iterdir()] == [] and (pod.volume / "a/file").exists()
    assert str(pod.targets) not in Path("/proc/self/mountinfo").read_text()


def test_without_root_the_error_recommends_mounting_the_whole_volume(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("nri.pods.sub_paths.mount", refuse)
    (pod.volume / "a").mkdir()
    with pytest.raises(
        NriError, match="only root may bind a path in a volume: run this command as root, or mount the whole volume"
    ):
        pod.bind("a")
