"""The launch of an installed plugin: environment, descriptors, and its exit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nri.adaptation.launch.discovery import PluginFile
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.stderr_tail import MAX_LINES
from tests.support.programs import script


def run(path: Path, index: str = "10", name: str = "foo") -> Process:
    process = Process(PluginFile(str(path), index, name))
    process.wait(lambda: 10.0)
    process.socket.close()
    return process


def test_the_environment_has_exactly_three_variables(tmp_path: Path) -> None:
    out = tmp_path / "environment"
    run(script(tmp_path, "10-foo", f"cat /proc/$$/environ > {out}\n"))
    variables = sorted(filter(None, out.read_bytes().split(b"\0")))
    assert variables == [b"NRI_PLUGIN_IDX=10", b"NRI_PLUGIN_NAME=foo", b"NRI_PLUGIN_SOCKET=3"]


def test_the_process_has_only_the_documented_descriptors(tmp_path: Path) -> None:
    out, secret = tmp_path / "descriptors", tmp_path / "secret"
    secret.touch()
    with secret.open():
        run(script(tmp_path, "10-foo", f"cd /proc/$$/fd && for n in *; do echo $n $(readlink $n); done > {out}\n"))
    links = dict(line.split(maxsplit=1) for line in out.read_text().splitlines() if " " in line)
    assert links["0"] == "/dev/null"
    assert links["2"].startswith("pipe:")
    assert links["3"].startswith("socket:")
    assert str(secret) not in links.values()


def test_the_process_has_no_arguments_and_the_runtimes_working_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(script(tmp_path, "10-foo", f'echo "$#" "$(pwd)" > {out}\n'))
    assert out.read_text().split() == ["0", os.getcwd()]


def test_an_ignored_sigpipe_is_not_inherited(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(script(tmp_path, "10-foo", f"grep SigIgn /proc/$$/status > {out}\n"))
    ignored = int(out.read_text().split()[1], 16)
    assert not ignored & 1 << 12


def test_the_last_output_and_the_exit_code_are_kept(tmp_path: Path) -> None:
    process = run(
        script(tmp_path, "10-foo", "for n in $(seq 100); do echo line $n >&2; done\nprintf end >&2\nexit 7\n")
    )
    assert process.status == "exit code 7"
    assert process.failed
    lines = process.last_words.splitlines()
    assert lines[-2:] == ["line 100", "end"]
    assert len(lines) == MAX_LINES + 1


def test_a_flood_on_stderr_does_not_fill_memory(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "head -c 3000000 /dev/zero >&2\n"))
    assert len(process.last_words) < 10_000
    assert not process.failed


def test_a_killed_process_is_reported_with_its_signal(tmp_path: Path) -> None:
    process = Process(PluginFile(str(script(tmp_path, "10-foo", "exec sleep 100\n")), "10", "foo"))
    process.kill()
    process.wait(lambda: 10.0)
    process.socket.close()
    assert process.status == "killed by SIGKILL"
    process.kill()  # harmless


def test_a_failed_start_leaves_no_open_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    path = script(tmp_path, "10-foo", "")
    path.write_text("not a program")
    with pytest.raises(OSError, match="Exec format"):
        Process(PluginFile(str(path), "10", "foo"))
    assert len(os.listdir("/proc/self/fd")) <= before
    assert stat.S_ISREG(path.stat().st_mode)


def test_control_characters_in_the_output_are_escaped(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "printf 'a\\033[2J\\rb\\nc\\342\\200\\256d\\n' >&2\n"))
    assert process.last_words == "a\\x1b[2J\\rb\nc\\u202ed"


def test_a_shortened_line_ends_with_dots(tmp_path: Path) -> None:
    process = run(script(tmp_path, "10-foo", "head -c 5000 /dev/zero | tr '\\0' x >&2; echo >&2\n"))
    assert process.last_words.startswith("xxx")
    assert process.last_words.endswith("...")
    assert len(process.last_words) <= 1024
