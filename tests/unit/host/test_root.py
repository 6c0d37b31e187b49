"""Paths below a root never leave the root, with and without openat2."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from nri.host import root as module
from nri.host.root import Root, open_below


class _OldKernel:
    """A C library whose kernel has no openat2."""

    def syscall(self, *_: object) -> int:
        ctypes.set_errno(errno.ENOSYS)
        return -1


@pytest.fixture(params=["openat2", "folder by folder"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "openat2":
        monkeypatch.setattr(module, "libc", _OldKernel())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file and links that would lead out of it."""
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/passwd").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "dots").symlink_to("../../../../etc/passwd")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to("/etc")
    (folder / "loop").symlink_to("loop")
    return folder


def content(root: Path, path: str) -> bytes:
    with os.fdopen(open_below(root, path), "rb") as file:
        return file.read()


@pytest.mark.parametrize(
    "path", ["etc/passwd", "/etc/passwd", "absolute", "dots", "../etc/passwd", "folder/passwd", "folder/../etc/passwd",
             "./etc//./passwd", "../../folder/passwd"],
)  # fmt: skip
def test_symlinks_and_dots_are_resolved_inside_the_root(root: Path, path: str) -> None:
    assert content(root, path) == b"inside"


def test_a_link_out_of_the_root_is_not_found(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match="out"):
        content(root, "out")
    assert not Root(root).exists("out")


@pytest.mark.parametrize("path", ["absolute", "dots", "out", "folder", "folder/passwd", "etc/../folder", "loop"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_with_follow_disabled_any_link_is_an_error(root: Path, path: str, flags: int) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_below(root, path, flags, follow=False)
    os.close(open_below(root, "./etc//passwd", flags, follow=False))
    os.close(open_below(root, "..", flags, follow=False))


def test_a_link_that_replaces_a_folder_during_opening_is_never_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_a_link(*_: object, **__: object) -> str:
        raise OSError(errno.EINVAL, "not a link")

    monkeypatch.setattr(os, "readlink", not_a_link)  # the check before the exchange
    if isinstance(module.libc, _OldKernel):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            open_below(root, "folder", os.O_PATH)


def test_cyclic_links_are_an_error(root: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        content(root, "loop")


def test_no_descriptor_is_left_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("etc/passwd", "out", "loop", "folder/passwd", "etc/nothing/there"):
        Root(root).find(path)
        Root(root).names(path)
        Root(root).folders(path)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_written_text_replaces_the_old_text(root: Path) -> None:
    files = Root(root)
    files.write("etc/passwd", "x")
    assert files.read("/etc/passwd") == "x"
    (root / "etc/passwd").write_bytes(b"\xff")
    files.write("etc/passwd", files.read("etc/passwd"))
    assert (root / "etc/passwd").read_bytes() == b"\xff"


def test_a_write_never_creates_a_file(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Root(root).write("etc/new", "x")
    assert not (root / "etc/new").exists()


def test_missing_paths_are_none_or_empty(root: Path) -> None:
    files = Root(root)
    assert files.find("nothing") is None
    assert files.identity("nothing") is None
    assert files.names("nothing") == files.folders("nothing") == []
    with pytest.raises(FileNotFoundError, match="nothing"):
        files.read("nothing")


def test_a_folder_is_listed_by_files_or_folders(root: Path) -> None:
    (root / "etc/sub").mkdir()
    (root / "etc/link").symlink_to("/etc")
    assert Root(root).names("etc") == ["link", "passwd", "sub"]
    assert Root(root).folders("etc") == ["sub"]


def test_a_replaced_file_has_another_identity(root: Path) -> None:
    files = Root(root)
    first = files.identity("etc/passwd")
    assert files.identity("absolute") == first
    (root / "etc/passwd").rename(root / "etc/old")
    (root / "etc/passwd").write_text("new")
    assert files.identity("etc/passwd") != first


def test_folders_are_created_and_removed_only_below_the_root(root: Path, tmp_path: Path) -> None:
    files = Root(root)
    files.make_folder("/folder/group")
    assert (root / "etc/group").is_dir()
    with pytest.raises(FileExistsError, match="folder/group"):
        files.make_folder("folder/group")
    files.remove_folder("../folder/group/")
    assert not (root / "etc/group").exists()
    with pytest.raises(FileNotFoundError, match="etc/group"):
        files.remove_folder("etc/group")
    for path in ("/", "", "etc/..", "."):
        with pytest.raises(OSError, match="not the path of a folder"):
            files.remove_folder(path)


def test_reading_a_folder_is_an_error(root: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Root(root).read("etc")


def test_the_root_of_this_machine_is_known(root: Path) -> None:
    assert Root().is_own and Root("/./").is_own
    assert not Root(root).is_own
    assert Root().read("/proc/self/stat").startswith(str(os.getpid()))
    assert repr(Root("/x")) == "Root('/x')"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EAGAIN])
def test_without_openat2_a_path_is_opened_folder_by_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """EPERM comes from a seccomp profile without the call, EAGAIN from a move during `..`."""

    class Refusing:
        def syscall(self, *_: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(module, "libc", Refusing())
    assert content(root, "folder/../absolute") == b"inside"
    with pytest.raises(FileNotFoundError):
        open_below(root, "out")


@pytest.mark.timeout(10)
def test_pipes_do_not_block_and_devices_are_not_opened(root: Path) -> None:
    os.mkfifo(root / "etc/pipe")
    (root / "etc/through").symlink_to("pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("etc/pipe", "etc/through"):
        for attempt in (lambda path=path: Root(root).read(path), lambda path=path: Root(root).write(path, "x")):
            with pytest.raises(OSError, match=f"not a regular file.*{path}"):
                attempt()
        assert Root(root).find(path) is None and Root(root).exists(path)
    with pytest.raises(OSError, match=r"not a regular file.*zero"):
        Root("/dev").read("zero")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_file_above_the_limit_is_not_read(root: Path) -> None:
    os.truncate(root / "etc/passwd", (64 << 20) + 1)
    with pytest.raises(OSError, match=r"longer than \d+ bytes.*etc/passwd"):
        Root(root).read("etc/passwd")
