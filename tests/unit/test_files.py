"""Atomic writes, safe reads, and walks and removal of trees of any depth."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nri.files import (
    TEMPORARY,
    Lock,
    Usage,
    open_regular,
    private_folder,
    read_regular,
    remove_tree,
    set_aside,
    usage,
    walk,
    write_whole,
)

#: Deeper than any path can say, than Python recurses and than a process may have files open.
DEEP = 3000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone mounts")


def deepen(folder: Path, depth: int = DEEP, name: str = "a") -> None:
    """Make folders in each other, with a file of one byte in each tenth."""
    stream = os.open(folder, os.O_RDONLY)
    for number in range(depth):
        os.mkdir(name, dir_fd=stream)
        below = os.open(name, os.O_RDONLY, dir_fd=stream)
        os.close(stream)
        stream = below
        if number % 10 == 0:
            file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=stream)
            os.write(file, b"x")
            os.close(file)
    os.close(stream)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A folder in which deep ones may be made: pytest's own removal would not come to their end."""
    folder = tmp_path / "tree"
    folder.mkdir()
    yield folder
    remove_tree(folder)


# --- one file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_atomically_with_a_private_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"1" * 100)
    write_whole(path, b"2")
    assert path.read_bytes() == b"2" and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "a", b"", 0o644)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / f"{TEMPORARY}a.new").symlink_to(tmp_path / "victim")
    write_whole(tmp_path / "a", b"x")
    assert (tmp_path / "victim").read_text() == "kept"
    assert (tmp_path / "a").read_bytes() == b"x" and not (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("kind", ["pipe", "hard link", "half written"])
def test_a_pipe_or_file_at_the_temporary_name_is_replaced(tmp_path: Path, kind: str) -> None:
    way = tmp_path / f"{TEMPORARY}a.new"
    (tmp_path / "victim").write_text("kept")
    if kind == "pipe":
        os.mkfifo(way)
    elif kind == "hard link":
        os.link(tmp_path / "victim", way)
    else:
        way.write_text("longer than the new one")
    write_whole(tmp_path / "a", b"x")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "victim").read_text()) == (b"x", "kept")
    assert sorted(os.listdir(tmp_path)) == ["a", "victim"]


def test_several_processes_can_write_the_same_file_atomically(tmp_path: Path) -> None:
    program = (
        "import sys; from nri.files import write_whole\n"
        "for number in range(200): write_whole(sys.argv[1], sys.argv[2].encode() * 100_000, sync=False)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, tmp_path / "a", letter]) for letter in "abc"]
    calls = set()
    while any(writer.poll() is None for writer in writers):
        with suppress(FileNotFoundError):
            data = (tmp_path / "a").read_bytes()
            calls.add((len(data), len({*data})))
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert calls == {(100_000, 1)}
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_names_the_file_and_keeps_the_old_content(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # Python ignores the signal that comes with it
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write_whole(tmp_path / "a", b"n" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "a"))
    assert str(caught.value).endswith(f"File too large: '{tmp_path / 'a'}'")
    assert (os.listdir(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"old")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as created:
        created.bind(str(path))


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (os.mkfifo, errno.EINVAL),
        (_socket, errno.EINVAL),
        (lambda path: path.symlink_to("/dev/zero"), errno.EINVAL),
        (os.mkdir, errno.EISDIR),
        (lambda path: None, errno.ENOENT),
    ],
    ids=["pipe", "socket", "device", "folder", "nothing"],
)
def test_a_file_that_is_not_regular_is_an_error_with_its_path(
    tmp_path: Path, make: Callable[[Path], object], number: int
) -> None:
    make(tmp_path / "x")
    with pytest.raises(
        OSError, match=os.strerror(number) if number != errno.EINVAL else "not a regular file"
    ) as caught:
        read_regular(tmp_path / "x", 10)
    assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / "x"))


def test_the_null_device_is_an_empty_file() -> None:
    assert read_regular("/dev/null", 10) == b""


def test_a_file_that_becomes_a_pipe_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("")
    look = os.stat

    def swap(*arguments: object, **options: object) -> os.stat_result:
        matches = look(*arguments, **options)  # type: ignore[arg-type]
        path.unlink()
        os.mkfifo(path)
        return matches

    monkeypatch.setattr(os, "stat", swap)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(path)


def test_a_link_is_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "b", 10) == b"text"
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "b", 10, follow=False)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a", 5) == b"12345"
    with pytest.raises(OSError, match="longer than 4 bytes"):
        read_regular(tmp_path / "a", 4)


def test_private_folder_removes_the_access_of_others(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir(mode=0o755)
    assert private_folder(tmp_path / "f").stat().st_mode & 0o777 == 0o700


def test_set_aside_does_not_overwrite_earlier_files(tmp_path: Path) -> None:
    for text in ("1", "2"):
        (tmp_path / "bad").write_text(text)
        set_aside(tmp_path / "bad", tmp_path / "broken")
    assert {path.name: path.read_text() for path in (tmp_path / "broken").iterdir()} == {"bad": "1", "bad.1": "2"}
    assert not (tmp_path / "bad").exists()


def test_a_lock_names_its_owner_and_ends_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = "import sys; from nri.files import Lock; lock = Lock(sys.argv[1], 'me'); print('held'); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match="me"):
            Lock(path)
        other.kill()
    with Lock(path):
        pass


def test_a_pipe_cannot_be_a_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(OSError, match="not a regular file"):
        Lock(tmp_path / "lock")


# --- a tree -----------------------------------------------------------------------------------------------------------


def test_a_tree_deeper_than_the_path_limit_is_walked_and_removed(tree: Path) -> None:
    deepen(tree)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, before[1]))
    try:
        assert sum(1 for _ in walk(tree)) == DEEP + DEEP // 10
        assert usage(tree).inodes == 1 + DEEP + DEEP // 10
        remove_tree(tree)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not tree.exists()


def test_subtrees_below_the_depth_limit_are_moved_up_and_removed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.files.DEEPEST", 7)
    deepen(tree, 100)
    for number in range(3):
        (tree / f"beside{number}/b").mkdir(parents=True)
    remove_tree(tree)
    assert not tree.exists()


def test_a_wide_tree_is_removed_in_batches(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.files.BATCH", 3)
    for number in range(20):
        (tree / f"{number}/in/it").mkdir(parents=True)
        (tree / f"{number}/file").touch()
    remove_tree(tree)
    assert not tree.exists()


def test_links_are_removed_without_being_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "victim/inner").mkdir(parents=True)
    (tree / "folder").symlink_to(tmp_path / "victim")
    (tree / "nowhere").symlink_to("x")
    assert {call.name for call in walk(tree)} == {"folder", "nowhere"}
    remove_tree(tree)
    assert (tmp_path / "victim/inner").is_dir() and not tree.exists()


def test_a_shared_folder_is_refused_as_a_private_folder(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with pytest.raises(PermissionError, match=r"all users share this folder; choose a folder below it: .*shared"):
        private_folder(tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o1777


def test_a_file_instead_of_a_private_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="not a folder") as caught:
        private_folder(tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


def test_files_and_missing_paths_are_ignored_as_trees(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link", "nothing"):
        remove_tree(tmp_path / name)
    assert os.listdir(tmp_path) == []


def make_unchangeable(path: Path, flag: int) -> None:
    """As chattr does, with +i (0x10) or +a (0x20)."""
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, 0x40086602, struct.pack("l", flag))
    finally:
        os.close(opened)


def refused(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@needs_root
def test_immutable_files_are_removed(tree: Path) -> None:
    for name in ("in/a", "in/b", "empty", "pipes"):
        (tree / name).mkdir(parents=True)
    os.mkfifo(tree / "pipes/pipe")
    for name in ("file", "in/b/file", "only appended"):
        (tree / name).write_text("x")
    try:
        for name, flag in (("only appended", 0x20), ("file", 0x10), ("in/b/file", 0x10), ("in/b", 0x10), ("in", 0x20),
                           ("empty", 0x10), ("pipes", 0x10)):  # fmt: skip
            make_unchangeable(tree / name, flag)
    except OSError as error:
        pytest.skip(f"this machine has no flags of files in {tree}: {error}")
    with pytest.raises(PermissionError):
        os.unlink(tree / "file")
    remove_tree(tree)
    assert not tree.exists()


@needs_root
@pytest.mark.parametrize("flag", [0x10, 0x20])
@pytest.mark.parametrize("kind", ["file", "empty folder"])
def test_an_immutable_path_is_removed_from_an_immutable_parent_which_stays_immutable(
    tree: Path, kind: str, flag: int
) -> None:
    alone = tree / "alone"
    alone.touch() if kind == "file" else alone.mkdir()
    try:
        make_unchangeable(alone, flag)
        make_unchangeable(tree, 0x10)
    except OSError as error:
        pytest.skip(f"this machine has no flags of files in {tree}: {error}")
    try:
        with pytest.raises(PermissionError):
            remove_tree(alone)
    finally:
        make_unchangeable(tree, 0)
    make_unchangeable(alone, flag)
    remove_tree(alone)
    assert os.listdir(tree) == []


@needs_root
def test_a_path_that_cannot_be_removed_is_named_and_devices_are_not_opened(tree: Path) -> None:
    (tree / "locked").mkdir()
    os.mknod(tree / "locked/watchdog", 0o600 | stat.S_IFCHR, os.makedev(10, 130))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "ioctl", refused)
        patch.setattr(os, "unlink", refused)
        with pytest.raises(PermissionError, match=r"\(1 folders\)/watchdog"):
            remove_tree(tree)


@needs_root
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_mounts_inside_a_tree_are_neither_walked_nor_removed(tree: Path, tmp_path: Path, kind: str) -> None:
    (tree / "a/mount").mkdir(parents=True)
    (tmp_path / "other/kept").mkdir(parents=True)
    words = ["-t", "tmpfs", "x"] if kind == "tmpfs" else ["--bind", str(tmp_path / "other")]
    subprocess.run(["mount", *words, str(tree / "a/mount")], check=True)
    try:
        (tree / "a/mount/kept").mkdir(exist_ok=True)
        assert {call.name for call in walk(tree)} == {"a", "mount"}
        with pytest.raises(OSError, match="a mount point") as caught:
            remove_tree(tree)
        assert caught.value.errno == errno.EBUSY
        assert (tree / "a/mount/kept").is_dir()
    finally:
        subprocess.run(["umount", str(tree / "a/mount")], check=True)


def test_a_folder_moved_during_a_walk_does_not_lead_outside(tree: Path, tmp_path: Path) -> None:
    (tree / "a/b/c").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    walked = walk(tree)
    while next(walked).name != "c":
        pass
    (tree / "a/b").rename(tmp_path / "elsewhere/b")
    with pytest.raises(OSError, match="moved meanwhile"):
        list(walked)


def test_usage_of_a_tree_with_moved_folders_is_the_counted_part(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a/b/c").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    opened = os.open

    def move(path: str, *arguments: int, **options: int) -> int:
        if path == ".." and (tree / "a").exists():
            (tree / "a").rename(tmp_path / "elsewhere/a")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", move)
    matches = usage(tree)
    monkeypatch.undo()
    assert (matches.inodes, matches.whole) == (4, False)


def test_a_tree_that_another_thread_writes_to_is_removed(tmp_path: Path) -> None:
    tree, stop = tmp_path / "tree", threading.Event()
    tree.mkdir()

    def write() -> None:
        number = 0
        end = time.monotonic() + 0.2
        while time.monotonic() < end and not stop.is_set():
            number += 1
            try:
                (tree / str(number)).touch()
            except FileNotFoundError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    remove_tree(tree)
    stop.set()
    writer.join()
    assert not tree.exists()


def test_remove_tree_can_remove_only_folders(tree: Path) -> None:
    (tree / "a/b").mkdir(parents=True)
    remove_tree(tree / "a", files=False)
    assert os.listdir(tree) == []
    (tree / "a").mkdir()
    (tree / "a/file").touch()
    with pytest.raises(OSError, match="not empty"):
        remove_tree(tree / "a", files=False)
    assert (tree / "a/file").exists()


def test_usage_counts_hard_links_once_and_links_themselves(tree: Path) -> None:
    (tree / "a").write_bytes(b"x" * 100_000)
    os.link(tree / "a", tree / "b")
    (tree / "c").symlink_to("/")
    expected = sum((tree / name).lstat().st_blocks * 512 for name in ("", "a", "c"))
    assert usage(tree) == Usage(expected, 3)


def test_usage_stops_at_its_limits_and_reports_it(tree: Path) -> None:
    for number in range(30):
        (tree / str(number)).touch()
    assert usage(tree, most_entries=10) == Usage(usage(tree).size_bytes, 11, whole=False)
    for number in range(2000):
        os.link(tree / "0", tree / f"link{number}")
    assert not usage(tree, within_s=0).whole
