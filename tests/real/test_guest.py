"""The guest of tests/guest returns a command's exit code and report, and ends in time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import need, need_root
from tools.guest import Guest, GuestError
from tools.guest.machine import REPORT, ROOT
from tools.runtimes.machine import MissingError


def traces(folder: Path) -> list[str]:
    """Files and processes of guests that were started with this temporary folder."""
    commands = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            commands.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [*map(str, folder.iterdir()), *(line for line in commands if f"{folder}/nri-g-" in line)]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where guests keep their files; a short path, because of sockets."""
    need_root()
    created = Path(tempfile.mkdtemp(prefix="nri-t-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(created))
    yield created
    shutil.rmtree(created)


def test_the_guest_returns_exit_code_and_report_of_a_command(tmp_path: Path, folder: Path) -> None:
    report = tmp_path / "report"
    script = f'cat /sys/fs/cgroup/cgroup.controllers > {REPORT}; echo "$WORD" >> {REPORT}; touch nri-guest; exit 7'
    try:
        code = Guest(300).run(["sh", "-c", script], {"WORD": "two words"}, report)
    except MissingError as error:
        need(False, str(error))
        raise
    assert code == 7
    assert report.read_text() == "cpuset cpu io memory hugetlb pids rdma misc\ntwo words\n"
    assert not (ROOT / "nri-guest").exists(), "the guest wrote to this machine"
    assert traces(folder) == []


def test_a_guest_that_exceeds_its_time_is_stopped(folder: Path) -> None:
    with pytest.raises(GuestError, match="exceeded 1 s"):
        Guest(1).run(["true"], {})
    assert traces(folder) == []
