"""The removal of leftovers ignores folders of other users and unreadable folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import unmeasured
from tests.support.needs import need_root
from tools.runtimes import leftovers
from tools.runtimes.leftovers import PREFIX

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one place of run directories."""
    monkeypatch.setattr(leftovers, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(leftovers, "CNI_RESULTS", tmp_path / "cni")
    return tmp_path


def test_a_folder_of_another_user_is_kept(place: Path) -> None:
    need_root()
    own_folder, planted, link = (place / f"{PREFIX}{name}" for name in ("own", "planted", "link"))
    own_folder.mkdir()
    planted.mkdir()
    os.chown(planted, 65534, 65534)
    (planted / "owner").symlink_to(place / "created-by-root")
    link.symlink_to(planted)
    assert leftovers.sweep_alone() == [own_folder]
    assert planted.is_dir() and link.is_symlink() and not (place / "created-by-root").exists()


def test_unreadable_cni_records_are_ignored(place: Path) -> None:
    need_root()
    results = place / "private/results"
    results.mkdir(parents=True)
    (results / f"{PREFIX}gone-1").touch()
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]);"
        "from pathlib import Path; from tools.runtimes import leftovers;"
        "leftovers.CNI_RESULTS = Path(sys.argv[2]); os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        "print(leftovers.cni_results())"
    )
    for mode in (0o700, 0o755):
        for folder in (place, *place.parents):
            if folder != Path("/") and folder != Path("/tmp"):
                folder.chmod(0o755)
        (place / "private").chmod(mode)
        command = [sys.executable, "-c", program, ROOT, results]
        # Measured for coverage, the user would have to write the data.
        process = subprocess.run(command, env=unmeasured(), capture_output=True, text=True, check=False)
        assert (process.stdout, process.stderr) == ("[]\n", "")
