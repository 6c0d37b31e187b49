"""The state file: read as it was written, refused if others could have written it, told if it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.plugins.placement.checkpoint import Checkpoint
from tests.support.placement import container, topology_aware


def written(folder: Path) -> Checkpoint:
    policy = topology_aware()
    policy.create(container("one", 1500))
    made = Checkpoint(str(folder / "state"), "topology-aware")
    made.write(policy.saved())
    return made


def test_what_was_written_is_read_and_the_folder_is_for_root_alone(tmp_path: Path) -> None:
    made = written(tmp_path)
    state, complaint = made.read()
    assert state is not None, complaint
    assert state.grants["one"].exclusive
    assert made.path.parent.stat().st_mode & 0o777 == 0o700
    assert made.path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    assert Checkpoint(str(tmp_path), "balloons").read() == (None, "")


def test_a_file_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    made = written(tmp_path)
    made.path.chmod(0o620)
    with pytest.raises(ConfigError, match=r"topology-aware\.json: state file: others can write it: its mode is 620"):
        made.read()
    target = made.path.rename(tmp_path / "elsewhere")
    made.path.symlink_to(target)
    with pytest.raises(ConfigError, match=r"it is a link \(remove it"):
        made.read()


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"{", "not valid JSON"), (b"\xff", "codec can't decode"), (b'{"policy": "balloons"}', "written by balloons")],
)
def test_one_that_cannot_be_used_is_told_and_counts_as_none(tmp_path: Path, text: bytes, words: str) -> None:
    made = written(tmp_path)
    made.path.write_bytes(text)
    state, complaint = made.read()
    assert state is None
    assert words in complaint
    assert str(made.path) in complaint


def test_one_that_belongs_to_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = written(tmp_path)
    monkeypatch.setattr("os.lstat", lambda path: made.path.stat().__class__((0o100600, 0, 0, 1, 4321, 0, 0, 0, 0, 0)))
    with pytest.raises(ConfigError, match="it belongs to user 4321"):
        made.read()
