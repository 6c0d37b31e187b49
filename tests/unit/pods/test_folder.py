"""Each pod has a private folder, which only that pod's run removes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.engine.support.kernel import mount, unmount
from nri.errors import NriError
from nri.files import Lock
from nri.host.cgroups import detect
from nri.host.root import MACHINE
from nri.pods import folder
from tests.support.needs import need_root


def modes(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): stat.S_IMODE(path.stat().st_mode) for path in [top, *sorted(top.rglob("*"))]}


def test_all_folders_above_the_volumes_are_private(tmp_path: Path) -> None:
    folder.create(tmp_path / "pods/u1", "shop/web", "/kubepods/podu1")
    assert modes(tmp_path / "pods") == {
        ".": 0o750, "u1": 0o700, "u1/logs": 0o700, "u1/volumes": 0o700, "u1/subpaths": 0o700, "u1/pod.json": 0o600,
        "u1/lock": 0o600,
    }  # fmt: skip


def test_the_uid_of_another_pod_is_refused_and_its_folder_is_kept(tmp_path: Path) -> None:
    with folder.create(tmp_path / "u1", "shop/web", ""):
        folder.set_pod_id(tmp_path / "u1", "sandbox1")
    (tmp_path / "u1/volumes/data").touch()
    with pytest.raises(NriError, match=r"pod shop/db: pod shop/web already has the uid u1; .* remove metadata.uid"):
        folder.create(tmp_path / "u1", "shop/db", "")
    (tmp_path / "u2").mkdir()
    (tmp_path / "u2/file").touch()
    with pytest.raises(NriError, match=rf"pod shop/db: {tmp_path}/u2 exists: another pod already has the uid u2"):
        folder.create(tmp_path / "u2", "shop/db", "")
    (tmp_path / "u3").symlink_to(tmp_path / "u2")
    with pytest.raises(NriError, match=r"u3 exists: another pod already has"):
        folder.create(tmp_path / "u3", "shop/db", "")
    assert (tmp_path / "u1/volumes/data").exists() and (tmp_path / "u2/file").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["u1", "u2", "u3"]


def test_exactly_one_of_concurrent_runs_gets_the_folder(tmp_path: Path) -> None:
    outcomes: list[str] = []
    locks: list[Lock] = []
    barrier = threading.Barrier(8)

    def attempt(number: int) -> None:
        barrier.wait()
        try:
            locks.append(folder.create(tmp_path / "pods/u1", f"shop/web{number}", ""))
            outcomes.append("created")
        except NriError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("created") == 1
    assert sum("already has the uid u1" in outcome for outcome in outcomes) == 7
    assert [path.name for path in (tmp_path / "pods").iterdir()] == ["u1"]


def test_only_the_pod_of_the_record_is_removed(tmp_path: Path) -> None:
    with folder.create(tmp_path / "u1", "shop/web", ""):
        folder.set_pod_id(tmp_path / "u1", "sandbox1")
    for name, pod_id in (("shop/web", "sandbox2"), ("shop/db", "sandbox1"), ("shop/web", "")):
        folder.remove(tmp_path / "u1", name, pod_id)
        assert (tmp_path / "u1/logs").is_dir()
    folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("record", ["", "{", "[]", "null", '{"name": 1, "id": "", "cgroup": ""}', "[" * 100_000])
def test_a_folder_without_a_usable_record_is_never_removed(tmp_path: Path, record: str) -> None:
    (tmp_path / "u1").mkdir()
    (tmp_path / "u1/pod.json").write_text(record)
    folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    assert (tmp_path / "u1").is_dir()


def test_an_existing_cgroup_is_refused_and_kept(tmp_path: Path) -> None:
    need_root()
    top = Path(detect(MACHINE).rows[0].path)
    cgroup = f"/nri-test-{os.getpid()}/podu1"
    (top / cgroup.strip("/")).mkdir(parents=True)
    try:
        with pytest.raises(NriError, match=rf"another pod has the uid u1: the cgroup {top}{cgroup} already exists"):
            folder.create(tmp_path / "u1", "shop/web", cgroup)
        assert [*tmp_path.iterdir()] == [] and (top / cgroup.strip("/")).is_dir()
    finally:
        (top / cgroup.strip("/")).rmdir()
        (top / cgroup.strip("/")).parent.rmdir()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_pods_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods").chmod(mode)
    with pytest.raises(NriError, match=r"pods: other users may write to the folder of pods; chmod go-w"):
        folder.create(tmp_path / "pods/u1", "shop/web", "")
    (tmp_path / "pods").chmod(0o1777)
    folder.create(tmp_path / "pods/u1", "shop/web", "")


def test_a_pods_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "pods").mkdir()
    os.chown(tmp_path / "pods", 1000, -1)
    with pytest.raises(NriError, match="user 1000 owns the folder of pods; choose another folder with --pods-dir"):
        folder.create(tmp_path / "pods/u1", "shop/web", "")


def test_a_file_instead_of_the_pods_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pods").touch()
    with pytest.raises(NotADirectoryError):
        folder.create(tmp_path / "pods/u1", "shop/web", "")


def test_the_folder_of_a_run_without_a_sandbox_is_kept(tmp_path: Path) -> None:
    with folder.create(tmp_path / "u1", "shop/web", ""):
        folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
        folder.remove(tmp_path / "u1", "shop/web", "")
        with pytest.raises(NriError, match="pod shop/db: pod shop/web already has the uid u1"):
            folder.create(tmp_path / "u1", "shop/db", "")
        folder.create(tmp_path / "u2", "shop/db", "").close()
        assert (tmp_path / "u1/volumes").is_dir()


KILLED = """
import os, sys
from pathlib import Path
from nri.pods import folder
left = int(sys.argv[2])

def count(event, arguments):
    global left
    if event in ("open", "os.mkdir", "os.rename", "os.listdir", "fcntl.flock", "os.remove", "os.rmdir"):
        left -= 1
        if not left:
            os._exit(9)

home = Path(sys.argv[1])
home.parent.mkdir(exist_ok=True)
sys.addaudithook(count)
lock = folder.create(home, "shop/web", "")
if "remove" in sys.argv:
    folder.set_pod_id(home, "sandbox1")
    lock.close()
    folder.remove(home, "shop/web", "sandbox1")
left = 0
"""


@pytest.mark.parametrize("until", ["create", "remove"])
def test_after_a_kill_at_any_step_the_next_run_removes_the_rest(tmp_path: Path, until: str) -> None:
    home, step, code = tmp_path / "pods/u1", 0, 9
    while code == 9:
        step += 1
        code = subprocess.run([sys.executable, "-c", KILLED, home, str(step), until], check=False).returncode
        folder.remove(home, "shop/web", "sandbox1")  # as `nri pod rm` does where the runtime has the sandbox
        with folder.create(home, "shop/db", ""):
            folder.set_pod_id(home, "sandbox2")
        folder.remove(home, "shop/db", "sandbox2")
        assert [*home.parent.iterdir()] == [], step
    assert code == 0 and step > 10


def test_the_next_run_removes_folders_of_killed_runs(tmp_path: Path) -> None:
    folder.create(tmp_path / "u1", "shop/web", "").close()
    (tmp_path / "u1/volumes/data").mkdir()
    with folder.create(tmp_path / "u2", "shop/db", ""):
        assert [path.name for path in tmp_path.iterdir()] == ["u2"]


def test_a_creation_that_fails_on_a_full_disk_leaves_no_folder(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "pods").mkdir(0o750)
    for inodes in range(2, 12):
        mount("tmpfs", tmp_path / "pods", "tmpfs", data=f"nr_inodes={inodes},mode=0750")
        try:
            with folder.create(tmp_path / "pods/u1", "shop/web", ""):
                return
        except OSError as error:
            assert (error.errno, error.filename) == (errno.ENOSPC, str(tmp_path / "pods/u1"))
            assert [*(tmp_path / "pods").iterdir()] == [], inodes
        finally:
            unmount(tmp_path / "pods", lazily=True)
    pytest.fail("there was never enough room")


def interfere(monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None], after: Callable[[Path], None]) -> None:
    """Let another command act just before and just after this one takes the lock of a folder for the first time."""
    actions = [before, after]

    def lock(path: Path) -> Lock:
        first, actions[:] = [*actions], []
        if first:
            first[0](path.parent)
        taken_lock = Lock(path)
        if first:
            first[1](path.parent)
        return taken_lock

    monkeypatch.setattr(folder, "Lock", lock)


def test_an_interrupted_creation_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: Path, content: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "write_whole", interrupt)
    with pytest.raises(KeyboardInterrupt):
        folder.create(tmp_path / "u1", "shop/web", "")
    assert [*tmp_path.iterdir()] == []


def test_the_id_is_not_recorded_in_a_folder_without_a_record(tmp_path: Path) -> None:
    (tmp_path / "u1").mkdir()
    folder.set_pod_id(tmp_path / "u1", "sandbox1")
    assert [*(tmp_path / "u1").iterdir()] == []


def test_a_removal_waits_for_another_command_and_then_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "REMOVAL_TIMEOUT_S", 0.15)
    with folder.create(tmp_path / "u1", "shop/web", ""):
        folder.set_pod_id(tmp_path / "u1", "sandbox1")
        with pytest.raises(OSError, match="another command is removing it"):
            folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_changes_before_its_lock_is_taken_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(home: Path) -> None:
        (home / "pod.json").write_text('{"name": "shop/db", "id": "sandbox2", "cgroup": ""}')

    for change, names in ((shutil.rmtree, []), (replace, ["u1"])):
        with folder.create(tmp_path / "u1", "shop/web", ""):
            folder.set_pod_id(tmp_path / "u1", "sandbox1")
        interfere(monkeypatch, change, lambda home: None)
        folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
        assert [path.name for path in tmp_path.iterdir()] == names


@pytest.mark.parametrize("code", [errno.ENOTEMPTY, errno.EBUSY])
def test_a_folder_that_another_run_takes_during_its_removal_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(code, os.strerror(code))

    with folder.create(tmp_path / "u1", "shop/web", ""):
        folder.set_pod_id(tmp_path / "u1", "sandbox1")
    monkeypatch.setattr(Path, "rmdir", refuse)
    if code == errno.ENOTEMPTY:
        folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    else:
        with pytest.raises(OSError, match=os.strerror(code)):
            folder.remove(tmp_path / "u1", "shop/web", "sandbox1")
    assert (tmp_path / "u1").is_dir()


def test_a_new_folder_removed_before_its_lock_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interfere(monkeypatch, shutil.rmtree, lambda home: None)
    folder.create(tmp_path / "u1", "shop/web", "").close()
    assert (tmp_path / "u1/volumes").is_dir()


def test_a_new_folder_that_is_filled_before_its_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interfere(monkeypatch, lambda home: None, lambda home: (home / "file").touch())
    with pytest.raises(NriError, match="u1 exists: another pod already has the uid u1"):
        folder.create(tmp_path / "u1", "shop/web", "")
    assert (tmp_path / "u1/file").exists()


def test_a_link_to_a_folder_is_not_the_folder_of_a_pod(tmp_path: Path) -> None:
    with folder.create(tmp_path / "a/u1", "shop/web", ""):
        folder.set_pod_id(tmp_path / "a/u1", "sandbox1")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/u1").symlink_to("../a/u1")
    folder.remove(tmp_path / "b/u1", "shop/web", "sandbox1")
    assert (tmp_path / "a/u1/pod.json").exists() and (tmp_path / "b/u1").is_symlink()


@pytest.mark.parametrize("change", ["owner", "mode"])
def test_a_parent_of_the_pods_folder_that_others_can_replace_is_refused(tmp_path: Path, change: str) -> None:
    need_root()
    (tmp_path / "home/pods").mkdir(parents=True)
    if change == "owner":
        os.chown(tmp_path / "home", 1000, -1)
    else:
        (tmp_path / "home").chmod(0o777)
    (tmp_path / "link").symlink_to("home/pods")
    for parent in ("home/pods", "link", "home/new"):
        with pytest.raises(NriError, match=r"home: (user 1000 owns|other users may write to) a folder above .*"):
            folder.create(tmp_path / parent / "u1", "shop/web", "")
    assert [*(tmp_path / "home/pods").iterdir()] == []
