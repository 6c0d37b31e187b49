"""Installed plugins: what counts as one, its configuration, and the contract by which it is started."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nri.adaptation.launch.discovery import Found, config_text, discover
from nri.adaptation.launch.process import LAST_LINES, Process
from nri.errors import ConfigError


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)
    return path


def run(path: Path, index: str = "10", name: str = "foo") -> Process:
    process = Process(Found(str(path), index, name))
    process.wait(lambda: 10.0)
    process.socket.close()
    return process


def test_plugins_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("20-b", "10-z", "10-a"):
        script(tmp_path, name, "")
    assert [found.label for found in discover(str(tmp_path))[0]] == ["10-a", "10-z", "20-b"]


def test_folders_and_files_that_are_not_executable_are_no_plugins(tmp_path: Path) -> None:
    script(tmp_path, "10-data", "", 0o644)
    (tmp_path / "20-folder").mkdir()
    assert discover(str(tmp_path)) == ([], [])


def test_a_folder_that_is_missing_has_no_plugins(tmp_path: Path) -> None:
    assert discover(str(tmp_path / "nowhere")) == ([], [])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: script(folder, "10-a", "", 0o775), "it can be written by group or others (mode 0775)"),
        (lambda folder: script(folder, "10-a.wasm", ""), "plugins in WebAssembly are not supported"),
        (lambda folder: (folder / "10-a").symlink_to(folder / "gone"), "it cannot be looked at"),
        (
            lambda folder: (script(folder, "10-a", ""), folder.chmod(0o777)),
            "its folder can be written by group or others",
        ),
    ],
    ids=["writable", "wasm", "dangling link", "writable folder"],
)
def test_what_cannot_be_launched_is_reported_with_the_reason(tmp_path: Path, make: object, reason: str) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    assert callable(make)
    make(folder)
    found, skipped = discover(str(folder))
    assert found == []
    assert skipped[0].reason.startswith(reason)


def test_a_link_to_a_plugin_is_a_plugin(tmp_path: Path) -> None:
    target = script(tmp_path / "bin", "real", "")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "10-link").symlink_to(target)
    assert [found.label for found in discover(str(tmp_path / "plugins"))[0]] == ["10-link"]


def test_configuration_of_its_own_comes_before_the_common_one(tmp_path: Path) -> None:
    assert config_text(str(tmp_path), "10", "foo") == ("", None)
    (tmp_path / "foo.conf").write_text("common")
    assert config_text(str(tmp_path), "10", "foo")[0] == "common"
    (tmp_path / "10-foo.conf").write_text("own\n")
    assert config_text(str(tmp_path), "10", "foo") == ("own\n", str(tmp_path / "10-foo.conf"))


def test_configuration_that_cannot_be_read_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "10-foo.conf").mkdir()
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration of plugin 10-foo cannot be read"):
        config_text(str(tmp_path), "10", "foo")


def test_configuration_is_a_regular_file_of_at_most_1_mib(tmp_path: Path) -> None:
    """A pipe would keep the plugin's supervisor waiting for ever, and a log that landed here would fill memory."""
    path = tmp_path / "10-foo.conf"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration .* cannot be read: not a regular file"):
        config_text(str(tmp_path), "10", "foo")
    path.unlink()
    path.write_text("x" * (1 << 20))
    assert len(config_text(str(tmp_path), "10", "foo")[0]) == 1 << 20
    path.write_text("x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration .* cannot be read: more than 1 MiB"):
        config_text(str(tmp_path), "10", "foo")


def test_the_environment_has_three_variables_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "environment"
    run(script(tmp_path, "10-foo", f"cat /proc/$$/environ > {out}\n"))
    variables = sorted(filter(None, out.read_bytes().split(b"\0")))
    assert variables == [b"NRI_PLUGIN_IDX=10", b"NRI_PLUGIN_NAME=foo", b"NRI_PLUGIN_SOCKET=3"]


def test_descriptors_are_those_of_the_contract_and_nothing_of_the_runtimes(tmp_path: Path) -> None:
    out, secret = tmp_path / "descriptors", tmp_path / "secret"
    secret.touch()
    with secret.open():
        run(script(tmp_path, "10-foo", f"cd /proc/$$/fd && for n in *; do echo $n $(readlink $n); done > {out}\n"))
    links = dict(line.split(maxsplit=1) for line in out.read_text().splitlines() if " " in line)
    assert links["0"] == "/dev/null"
    assert links["2"].startswith("pipe:")
    assert links["3"].startswith("socket:")
    assert str(secret) not in links.values()


def test_it_gets_no_arguments_and_the_runtimes_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(script(tmp_path, "10-foo", f'echo "$#" "$(pwd)" > {out}\n'))
    assert out.read_text().split() == ["0", os.getcwd()]


def test_an_ignored_sigpipe_is_not_inherited(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(script(tmp_path, "10-foo", f"grep SigIgn /proc/$$/status > {out}\n"))
    ignored = int(out.read_text().split()[1], 16)
    assert not ignored & 1 << 12


def test_its_last_words_and_exit_code_are_kept(tmp_path: Path) -> None:
    process = run(
        script(tmp_path, "10-foo", "for n in $(seq 100); do echo line $n >&2; done\nprintf end >&2\nexit 7\n")
    )
    assert process.status == "exit code 7"
    assert process.failed
    lines = process.last_words.splitlines()
    assert lines[-2:] == ["line 100", "end"]
    assert len(lines) == LAST_LINES + 1


def test_a_flood_on_stderr_does_not_fill_memory(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "head -c 3000000 /dev/zero >&2\n"))
    assert len(process.last_words) < 10_000
    assert not process.failed


def test_a_killed_one_is_told_by_its_signal(tmp_path: Path) -> None:
    process = Process(Found(str(script(tmp_path, "10-foo", "exec sleep 100\n")), "10", "foo"))
    process.kill()
    process.wait(lambda: 10.0)
    process.socket.close()
    assert process.status == "killed by SIGKILL"
    process.kill()  # harmless


def test_what_cannot_be_started_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    path = script(tmp_path, "10-foo", "")
    path.write_text("not a program")
    with pytest.raises(OSError, match="Exec format"):
        Process(Found(str(path), "10", "foo"))
    assert len(os.listdir("/proc/self/fd")) == before
    assert stat.S_ISREG(path.stat().st_mode)


def test_what_it_writes_cannot_steer_a_terminal(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "printf 'a\\033[2J\\rb\\nc\\342\\200\\256d\\n' >&2\n"))
    assert process.last_words == "a\\x1b[2J\\rb\nc\\u202ed"


def test_a_long_line_says_that_it_was_cut(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "head -c 5000 /dev/zero | tr '\\0' x >&2; echo >&2\n"))
    assert process.last_words.startswith("xxx")
    assert process.last_words.endswith("...")
    assert len(process.last_words) <= 1024
