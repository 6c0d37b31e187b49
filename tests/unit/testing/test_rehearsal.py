"""A rehearsal of a plugin's start: errors in its output, and the folder of the run.

That it refuses what cannot start: see verbs/test_enable; what containerd makes of it: see tests/real.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.adaptation.peers.health import PluginHealth
from nri.errors import NriError
from nri.plugins.installation import launcher
from nri.testing import rehearsal

FILE = Path("/opt/pin.py")
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/pin.py", line 3, in <module>
    import other
  File "/opt/other.py", line 9, in <module>
ModuleNotFoundError: No module named 'x'"""
PLUGIN = "import nri\nclass P(nri.Plugin):\n    def create_container(self, pod, container): pass\nP.main()\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", ""),
        ("error: wrong\n2020-01-01 ERROR nri.plugin.pin: wrong", "wrong"),
        (TRACEBACK, "/opt/pin.py:3: ModuleNotFoundError: No module named 'x'"),
        (TRACEBACK.replace("pin.py", "lib.py"), "/opt/other.py:9: ModuleNotFoundError: No module named 'x'"),
        ("level=info\nlevel=fatal no luck", "level=fatal no luck"),
    ],
)
def test_the_error_is_found_in_a_programs_output(words: str, text: str) -> None:
    assert rehearsal.last_error_of(words, FILE) == text


@pytest.mark.parametrize(
    ("cut_off", "error", "words", "reason"),
    [
        (
            "plugin registration timed out",
            "its process ended (killed by SIGKILL)",
            "",
            "it does not register within 2 s",
        ),
        ("ttrpc: closed", "its process ended (exit code 0)", "", "it ends at once, without registering"),
        ("ttrpc: closed", "its process ended (exit code 1): no luck", "no luck", "no luck"),
        ("failed to configure: no", "its process ended (killed by SIGKILL)", "", "failed to configure: no"),
        ("", "", "", "it does not register"),
    ],
)
def test_the_reason_is_the_plugins_last_error(cut_off: str, error: str, words: str, reason: str) -> None:
    ended = PluginHealth("10-pin", "pre-connected", "gone", "gone", last_error=error, last_words=words)
    assert rehearsal.reason_of(cut_off, ended, 2.0, FILE) == reason


def test_the_configuration_file_is_named_as_the_source() -> None:
    reason = "the runtime's configuration:2: cpu: unknown key"
    assert rehearsal.with_source(reason, "/etc/c.conf") == "/etc/c.conf:2: cpu: unknown key"
    assert rehearsal.with_source(reason, "") == reason


def test_processes_that_the_plugin_started_are_ended(tmp_path: Path) -> None:
    file, noted = tmp_path / "10-pin.py", tmp_path / "pid"
    file.write_text(f"""
import pathlib, subprocess
noted = pathlib.Path("{noted}")
subprocess.Popen(["sh", "-c", "echo $$ > $0; exec sleep 1000", noted], start_new_session=True)
while not noted.exists() or not noted.read_text():
    pass
{PLUGIN}""")
    rehearsal.rehearse(launcher([sys.executable, str(file)], "10-pin").encode(), "10-pin", file, None, tmp_path)
    (pid,) = noted.read_text().split()
    assert not Path("/proc", pid).exists()


def test_a_rehearsal_runs_on_a_file_system_that_allows_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    locked = {"/locked": os.ST_NOEXEC, "/var/tmp": os.ST_NOEXEC}
    monkeypatch.setattr("tempfile.tempdir", "/locked")
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=locked.get(path, 0)))
    assert rehearsal.executable_folder(tmp_path / "pin.py") == str(tmp_path)
    locked[str(tmp_path)] = os.ST_NOEXEC
    assert rehearsal.executable_folder(tmp_path / "pin.py") == "/locked", "the start then reports the error"


def test_a_working_plugin_is_started_once_in_the_runtimes_folder(tmp_path: Path) -> None:
    plugin, seen_file = tmp_path / "pin.py", tmp_path / "seen"
    note = f"import os\nwith open({str(seen_file)!r}, 'a') as file:\n"
    note += "    print(os.getcwd(), sorted(os.environ), file=file)\n"
    plugin.write_text(note + PLUGIN)
    present_folder = os.getcwd()
    rehearsal.rehearse(launcher([sys.executable, str(plugin)], "10-pin").encode(), "10-pin", plugin, None, tmp_path)
    (line,) = seen_file.read_text().splitlines()
    folder, _, names = line.partition(" ")
    assert folder == "/"
    assert {"NRI_PLUGIN_IDX", "NRI_PLUGIN_NAME", "NRI_PLUGIN_SOCKET"} <= set(eval(names))
    assert not {"PATH", "HOME", "LANG"} & set(eval(names))
    assert os.getcwd() == present_folder


def test_a_plugin_that_fails_to_start_is_an_error_of_one_line(tmp_path: Path) -> None:
    plugin = tmp_path / "pin.py"
    plugin.write_text("raise SystemExit('error: not today')\n")
    with pytest.raises(NriError) as caught:
        rehearsal.rehearse(launcher([sys.executable, str(plugin)], "10-pin").encode(), "10-pin", plugin, None, tmp_path)
    assert str(caught.value) == f"{plugin}: does not start as the runtime would start it: not today"


@pytest.mark.parametrize("before", [None, "an older failure"])
@pytest.mark.parametrize("does", ["mkdir -p {folder}; echo new > {note}", "rm -f {note}"])
def test_the_doctors_notes_are_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, does: str
) -> None:
    monkeypatch.setattr(rehearsal, "DEFAULT_SOCKET", str(tmp_path / "nri.sock"))
    folder, plugin = tmp_path / "failed-plugins", tmp_path / "pin"
    note = folder / "10-pin"
    if before is not None:
        folder.mkdir()
        note.write_text(before)
    plugin.write_text(f"#!/bin/sh\nPATH=/bin\n{does.format(folder=folder, note=note)}\nexit 1\n")
    plugin.chmod(0o755)
    with pytest.raises(NriError):
        rehearsal.rehearse(launcher([str(plugin)], "10-pin").encode(), "10-pin", plugin, None, tmp_path)
    assert folder.exists() is (before is not None)
    assert before is None or note.read_text() == before
