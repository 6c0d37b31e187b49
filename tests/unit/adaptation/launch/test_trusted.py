"""Trusted files, which only root and our user can change, also between a check and a start."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from nri.adaptation.launch import trusted
from nri.adaptation.launch.discovery import PluginFile, config_text, discover
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.trusted import MAX_LINKS, TrustedFile, UntrustedError, check_interpreter
from nri.errors import ConfigError
from nri.testing import FakeRuntime
from tests.support.made_plugins import Mode, both
from tests.support.needs import need_root
from tests.support.waiting import wait_for


def file_at(path: Path, text: str = "text", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def why(path: Path) -> str:
    """Why a file is not trusted; "" if it is."""
    try:
        TrustedFile(str(path)).close()
    except UntrustedError as error:
        return str(error)
    return ""


def test_an_own_file_below_own_folders_is_trusted_and_read(tmp_path: Path) -> None:
    path = file_at(tmp_path / "a" / "b" / "file", "told")
    (tmp_path / "link").symlink_to("a/../a/b")
    for entry in (path, tmp_path / "link" / "file"):
        with TrustedFile(str(entry)) as file:
            assert file.read(100) == b"told"


@pytest.mark.parametrize("where", ["a", "a/b", "."])
def test_a_parent_folder_that_others_can_write_is_an_error_with_its_path(tmp_path: Path, where: str) -> None:
    path = file_at(tmp_path / "a" / "b" / "c" / "file")
    (tmp_path / where).chmod(0o775)
    folder = (tmp_path / where).resolve()
    assert why(path) == f"folder {folder} can be written by group or others (mode 0775); remedy: chmod go-w"
    (tmp_path / where).chmod(0o1777)
    assert why(path) == "", "in a sticky folder nobody replaces what is another's"


def test_a_parent_folder_of_another_user_is_an_error_with_its_path(tmp_path: Path) -> None:
    need_root()
    path = file_at(tmp_path / "a" / "b" / "file")
    os.chown(tmp_path / "a", 4711, -1)
    assert why(path) == f"folder {tmp_path}/a belongs to user 4711, who can change it; remedy: chown root"


def test_the_parent_folders_of_every_link_are_checked(tmp_path: Path) -> None:
    file_at(tmp_path / "open" / "inner" / "file")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "second").symlink_to(tmp_path / "open" / "inner")
    (tmp_path / "plugins" / "10-a").symlink_to("../second/file")
    assert why(tmp_path / "plugins" / "10-a") == ""
    (tmp_path / "open").chmod(0o777)
    assert why(tmp_path / "plugins" / "10-a").startswith(f"folder {tmp_path}/open can be written")


def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    need_root()
    file_at(tmp_path / "file")
    (tmp_path / "link").symlink_to("file")
    os.chown(tmp_path / "link", 4711, -1, follow_symlinks=False)
    assert "belongs to user 4711" in why(tmp_path / "link")


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels") as caught:
        TrustedFile(str(tmp_path / "a"))
    assert caught.value.errno == errno.ELOOP
    file_at(tmp_path / "0")
    for number in range(MAX_LINKS):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    assert why(tmp_path / str(MAX_LINKS)) == ""


@pytest.mark.parametrize("kind", ["folder", "fifo", "link to a folder"])
def test_a_path_that_is_not_a_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path.symlink_to(tmp_path)
    assert why(path) == "it is not a file"


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in (file_at(tmp_path / "a" / "file"), tmp_path / "gone" / "file", file_at(tmp_path / "open", mode=0o666)):
        for _ in range(3):
            try:
                TrustedFile(str(path)).close()
            except (UntrustedError, OSError):
                pass
    assert len(os.listdir("/proc/self/fd")) <= before


# --- starting


def started(matches: PluginFile, file: TrustedFile | None) -> Process:
    process = Process(matches, file)
    process.wait(lambda: 10.0)
    process.socket.close()
    return process


def test_the_checked_program_is_started_even_if_its_path_changes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "plugins"
    shutil.copy("/bin/true", file_at(folder / "10-a"))
    with TrustedFile(str(folder / "10-a")) as file:
        folder.rename(tmp_path / "away")
        file_at(folder / "10-a", "#!/bin/sh\nexit 66\n")
        assert started(PluginFile(str(folder / "10-a"), "10", "a"), file).status == "exit code 0"


def test_a_program_has_its_name_and_a_script_its_path(tmp_path: Path) -> None:
    shutil.copy(shutil.which("cat") or "/bin/cat", file_at(tmp_path / "10-program"))
    script = file_at(tmp_path / "20-script", "#!/bin/sh\necho $0 >&2\n")
    with TrustedFile(str(script)) as file:
        assert started(PluginFile(str(script), "20", "script"), file).last_words == str(script)
    with TrustedFile(str(tmp_path / "10-program")) as file:
        process = Process(PluginFile(str(tmp_path / "10-program"), "10", "program"), file)
        comm = Path(f"/proc/{process.pid}/comm")  # it is there also after the end, until that is taken note of
        wait_for(lambda: comm.read_text() == "10-program\n", "it has its own name")
        process.kill()
        process.wait(lambda: 10.0)
        process.socket.close()


@pytest.mark.parametrize("looked_at", [False, True])
def test_no_descriptor_of_the_runtime_is_inherited(tmp_path: Path, looked_at: bool) -> None:
    script = file_at(tmp_path / "10-a", f"#!{sys.executable}\nimport os, sys\n" + LISTS)
    leaked = os.pipe()
    high = 700
    os.dup2(leaked[0], high, inheritable=True)
    for fd in leaked:
        os.set_inheritable(fd, True)
    try:
        file = TrustedFile(str(script)) if looked_at else None
        assert started(PluginFile(str(script), "10", "a"), file).last_words == "[0, 1, 2, 3]"
        if file is not None:
            file.close()
    finally:
        for fd in (*leaked, high):
            os.close(fd)


#: Writes the descriptors that it was started with: the one of the listing itself is gone when they are looked at.
LISTS = """
found = [int(name) for name in os.listdir("/proc/self/fd")]
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
print(sorted(fd for fd in found if is_open(fd)), file=sys.stderr)
"""


# --- the interpreter of a script


def unsafe(script: Path) -> str:
    """Why the interpreter of a script is not trusted; "" if it is."""
    with TrustedFile(str(script)) as file:
        try:
            check_interpreter(file)
        except UntrustedError as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("#!/bin/sh\n", "/bin/sh"),
        ("#! \t/bin/sh -e x\n/other", "/bin/sh"),
        ("#!/bin/sh", "/bin/sh"),
        ("#!/usr/bin/env python3\n", "/usr/bin/env"),
        ("#!bin/sh\targument\n", "bin/sh"),
        ("#!\n/bin/sh\n", ""),
        ("#!", ""),
        ("", ""),
        ("\x7fELF#!/bin/sh\n", ""),
        ("#!/" + "x" * 300, "/" + "x" * 253),
    ],
)
def test_the_interpreter_is_read_like_the_kernel_does(tmp_path: Path, text: str, named: str) -> None:
    with TrustedFile(str(file_at(tmp_path / "script", text))) as file:
        assert file.interpreter == named


@pytest.mark.parametrize("what", ["it", "its folder", "a folder above", "what a link leads to"])
def test_an_interpreter_that_others_can_change_is_an_error(tmp_path: Path, what: str) -> None:
    program = tmp_path / "above" / "bin" / "python"
    shutil.copy("/bin/true", file_at(program))
    (tmp_path / "link").symlink_to(program)
    interpreter = tmp_path / "link" if what == "what a link leads to" else program
    script = file_at(tmp_path / "script", f"#!{interpreter} -I\n")
    assert unsafe(script) == ""
    opened = {"its folder": program.parent, "a folder above": program.parents[1]}.get(what, program)
    opened.chmod(0o777)
    assert unsafe(script).startswith(f"its interpreter {interpreter}: ")
    assert "can be written by group or others (mode 0777); remedy: chmod go-w" in unsafe(script)


def test_an_interpreter_of_another_user_is_an_error(tmp_path: Path) -> None:
    need_root()
    shutil.copy("/bin/true", file_at(tmp_path / "python"))
    os.chown(tmp_path / "python", 4711, -1)
    script = file_at(tmp_path / "script", f"#!{tmp_path}/python\n")
    belongs = "it belongs to user 4711, who can change it; remedy: chown root"
    assert unsafe(script) == f"its interpreter {tmp_path}/python: {belongs}"


def test_the_interpreter_of_an_interpreter_is_checked_and_a_loop_ends(tmp_path: Path) -> None:
    shutil.copy("/bin/true", file_at(tmp_path / "last"))
    inner = file_at(tmp_path / "inner", f"#!{tmp_path}/last\n")
    script = file_at(tmp_path / "script", f"#!{inner}\n")
    assert unsafe(script) == ""
    (tmp_path / "last").chmod(0o775)
    assert unsafe(script).startswith(f"its interpreter {tmp_path}/last: it can be written")
    file_at(inner, f"#!{inner}\n")
    assert unsafe(script) == ""


def test_a_missing_interpreter_is_not_an_error_of_the_check(tmp_path: Path) -> None:
    assert unsafe(file_at(tmp_path / "script", "#!/gone/python\n")) == ""


@both
def test_a_plugin_with_an_interpreter_that_others_can_change_is_not_started(tmp_path: Path, mode: Mode) -> None:
    marker = tmp_path / "ran"
    shutil.copy("/bin/sh", file_at(tmp_path / "bin" / "sh"))
    plugin = file_at(tmp_path / "plugins" / "10-a", f"#!{tmp_path}/bin/sh\necho > {marker}\nsleep 100\n")
    (tmp_path / "bin").chmod(0o777)
    options = {"plugin_path": str(plugin.parent), "plugin_config_path": "/nonexistent", "registration_timeout_s": 1.0}
    with FakeRuntime(compat=mode, **options):
        if mode == "reference":
            wait_for(marker.exists, "the reference starts it")
        else:
            assert [path_.path for path_ in discover(str(plugin.parent))[1]] == [str(plugin)]
    assert marker.exists() is (mode == "reference")


# --- each start


PLUGIN = """
import nri
class A(nri.Plugin):
    def start_container(self, pod, container): ...
    def stop_container(self, pod, container): raise SystemExit(3)
A.main()
"""


@pytest.mark.parametrize("what", ["a folder above", "the interpreter"])
def test_a_plugin_that_became_untrusted_is_not_restarted(tmp_path: Path, what: str) -> None:
    src = Path(__file__).resolve().parents[4] / "src"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    head = f"#!{tmp_path}/bin/python\nimport sys\nsys.path[:0] = {[str(src), *sys.path]!r}\n"
    path = file_at(tmp_path / "above" / "plugins" / "10-a", head + PLUGIN)
    drop_in = file_at(tmp_path / "conf.d" / "10-a.conf", "{}", 0o644)
    with FakeRuntime(plugin_path=str(path.parent), plugin_config_path=str(drop_in.parent)) as runtime:
        assert runtime.adaptation.ready(["10-a"], 20), runtime.plugins
        opened = path.parents[1] if what == "a folder above" else tmp_path / "bin"
        opened.chmod(opened.stat().st_mode | 0o022)
        os.kill(runtime.health("10-a").pid, signal.SIGKILL)
        wait_for(
            lambda: "can be written by group or others" in runtime.health("10-a").last_words, "it is not started again"
        )
        assert runtime.health("10-a").state == "not launched"
        opened.chmod(opened.stat().st_mode & ~0o022)
        wait_for(lambda: runtime.health("10-a").state == "active", "it is started once it is fixed")


def test_a_configuration_that_others_can_write_is_refused_and_a_missing_one_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    folder.chmod(0o777)
    assert config_text(str(folder), "10", "a", trusted=True) == ("", None)
    file_at(folder / "a.conf", "{}", 0o644)
    with pytest.raises(ConfigError, match="its folder can be written by group or others"):
        config_text(str(folder), "10", "a", trusted=True)
    assert config_text(str(folder), "10", "a")[0] == "{}"


def test_a_path_through_a_file_and_the_root_folder_are_refused(tmp_path: Path) -> None:
    file_at(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        TrustedFile(str(tmp_path / "file" / "inner"))
    assert why(Path("/")) == "it is not a file"


def test_a_root_folder_that_others_can_write_is_an_error_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_at(tmp_path / "file")
    look = os.fstat
    root = os.stat("/").st_ino, os.stat("/").st_dev

    def fstat(descriptor: int) -> os.stat_result:
        matches = look(descriptor)
        if (matches.st_ino, matches.st_dev) != root:
            return matches
        return os.stat_result((matches.st_mode | 0o022, *matches[1:10]))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fstat", fstat)
    assert why(path).startswith("folder / can be written by group or others")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_outside_the_user_namespace_every_user_has_the_overflow_id(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/self/uid_map": "0 1000 1\n", "/proc/sys/kernel/overflowuid": "65534\n"}
    monkeypatch.setattr(trusted, "open", lambda path, **_: io.StringIO(files[path]), raising=False)
    assert trusted.outsider() == 65534
    files["/proc/self/uid_map"] = "         0          0 4294967295\n"
    assert trusted.outsider() is None
