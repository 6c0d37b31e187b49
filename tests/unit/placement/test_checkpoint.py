"""The state file: read as it was written, refused if others could have written it, told if it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.placement import checkpoint
from nri.placement.checkpoint import MOST_BYTES, Checkpoint
from nri.placement.state import PlacementState
from tests.support.placement import balloons, container, topology_aware


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
    [
        (b"", "json: it is empty"),
        (b"{", "not valid JSON"),
        (b" " * (MOST_BYTES + 1), f"json: longer than {MOST_BYTES} bytes"),
        (b"\xff", "codec can't decode"),
        (b'{"policy": "balloons"}', "written by balloons"),
        (
            b'{"version":1,"policy":"topology-aware","containers":{},"grants":{},"balloons":[],"interrupts":{}}',
            "it is of version 1, and this program reads version 3",
        ),
        (b"{}\n" * 5_000_000, "it has 5000000 lines, and at most 32768 are read"),
        (b"{" + b'"a":{},' * 2_000_000 + b'"a":{}}', "it has 2000002 tables, and at most 32768 are read"),
        (b"{" + b'"a":"",' * 2_000_000 + b'"a":""}', "it has 2000001 values, and at most 524288 are read"),
    ],
)
def test_one_that_cannot_be_used_is_told_and_counts_as_none(tmp_path: Path, text: bytes, words: str) -> None:
    made = written(tmp_path)
    made.path.write_bytes(text)
    state, complaint = made.read()
    assert state is None
    assert words in complaint
    assert str(made.path) in complaint


def test_what_is_no_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    made = written(tmp_path)
    made.path.unlink()
    os.mkfifo(made.path, 0o600)
    assert made.read() == (None, f"{made.path}: not a regular file")
    made.path.unlink()
    made.path.mkdir(0o700)
    assert made.read() == (None, f"{made.path}: Is a directory")


def test_one_that_belongs_to_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = written(tmp_path)
    monkeypatch.setattr("os.lstat", lambda path: made.path.stat().__class__((0o100600, 0, 0, 1, 4321, 0, 0, 0, 0, 0)))
    with pytest.raises(ConfigError, match="it belongs to user 4321"):
        made.read()


def read_all(made: Checkpoint) -> PlacementState:
    state, complaint = Checkpoint(str(made.path.parent), "topology-aware").read()
    assert state is not None, complaint
    return state


def test_each_change_is_a_line_more_and_the_file_is_written_whole_again_before_it_grows_long(tmp_path: Path) -> None:
    policy, made = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    made.write(policy.saved())
    first, sizes, files = made.path.read_bytes(), [made.path.stat().st_size], {made.path.stat().st_ino}
    for number in range(2000):
        policy.create(container(f"c{number}", 100, qos="Burstable"))
        if number > 2:
            policy.release(f"c{number - 2}")
        made.write(policy.saved())
        files.add(made.path.stat().st_ino)
        sizes.append(made.path.stat().st_size)
        if number == 1:
            assert made.path.read_bytes().startswith(first)
            assert made.path.read_bytes().count(b"\n") == 3
            assert read_all(made) == policy.saved()
    assert len(files) > 1
    assert max(sizes) < 140_000
    assert read_all(made) == policy.saved()
    before = made.path.stat()
    made.write(policy.saved())
    assert made.path.stat() == before, "what has not changed is written"


def test_a_line_of_one_container_is_short_however_many_are_in_its_balloon(tmp_path: Path) -> None:
    policy, made = balloons(), Checkpoint(str(tmp_path), "balloons")
    for number in range(100):
        policy.create(container(f"c{number}"))
    made.write(policy.saved())
    before = made.path.stat().st_size
    policy.create(container("more"))
    made.write(policy.saved())
    assert 0 < made.path.stat().st_size - before < 300


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 3000), ("MOST_TABLES", 30)])
def test_lines_of_changes_never_make_it_longer_than_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(checkpoint, limit, most)
    policy, made = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    for number in range(50):
        policy.create(container("one", 100, qos="Burstable"))
        made.write(policy.saved())
        assert read_all(made) == policy.saved(), number
        policy.release("one")
        made.write(policy.saved())


def test_a_line_that_a_kill_cut_was_never_answered_and_does_not_count(tmp_path: Path) -> None:
    policy, made = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    made.write(policy.saved())
    policy.create(container("one", 1000))
    made.write(policy.saved())
    data, answered = made.path.read_bytes(), policy.saved()
    policy.create(container("two", 1000))
    made.write(policy.saved())
    whole = made.path.read_bytes()
    for length in range(len(data), len(whole)):
        made.path.write_bytes(whole[:length])
        assert read_all(made) == answered
    made.write(policy.saved())
    assert read_all(made) == policy.saved(), "a line follows one that has no end"


@pytest.mark.parametrize("news", [True, False])
@pytest.mark.parametrize("spoil", ["unlink", "replace", "write", "link"])
def test_a_file_that_others_changed_is_written_whole(tmp_path: Path, spoil: str, news: bool) -> None:
    policy, made = topology_aware(), Checkpoint(str(tmp_path / "state"), "topology-aware")
    policy.create(container("one", 1500))
    made.write(policy.saved())
    if spoil == "unlink":
        made.path.unlink()
    elif spoil == "replace":
        copy = tmp_path / "copy"
        copy.write_bytes(made.path.read_bytes())
        copy.rename(made.path)
    elif spoil == "write":
        made.path.write_bytes(b"{}\n")
    else:
        made.path.symlink_to(made.path.rename(tmp_path / "elsewhere"))
    if news:
        policy.create(container("other", 1000))
    made.write(policy.saved())
    assert made.path.is_file()
    assert not made.path.is_symlink()
    assert read_all(made) == policy.saved()


def test_a_disk_that_was_full_for_a_moment_leaves_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, made = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    made.write(policy.saved())
    for name, wrote in (("one", 0), ("two", 7)):
        policy.create(container(name, 1000))
        real = os.write
        monkeypatch.setattr("os.write", lambda file, data, wrote=wrote, real=real: real(file, data[:wrote]))
        made.write(policy.saved())
        monkeypatch.undo()
        assert read_all(made) == policy.saved()


@pytest.mark.parametrize("line", ['{"nothing": {"a": null}}', '{"grants": 1}', "[]", '{"grants": [1]}', "{", '"x"'])
def test_a_line_that_is_no_change_is_told(tmp_path: Path, line: str) -> None:
    made = written(tmp_path)
    with made.path.open("a") as file:
        file.write(f"{{}}\n{line}\n")
    state, complaint = made.read()
    assert state is None
    assert f"{made.path}:3: " in complaint
