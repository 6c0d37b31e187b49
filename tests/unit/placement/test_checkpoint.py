"""The state file: round trip, refused owners and modes, and damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.errors import ConfigError
from nri.placement import checkpoint
from nri.placement.checkpoint import MAX_BYTES, Checkpoint
from nri.placement.state import PlacementState
from tests.support.placement import balloons, container, topology_aware


def written(folder: Path) -> Checkpoint:
    policy = topology_aware()
    policy.create(container("one", 1500))
    checkpoint = Checkpoint(str(folder / "state"), "topology-aware")
    checkpoint.write(policy.saved())
    return checkpoint


def test_the_written_state_can_be_read_and_the_folder_is_private(tmp_path: Path) -> None:
    checkpoint = written(tmp_path)
    state, complaint = checkpoint.read()
    assert state is not None, complaint
    assert state.grants["one"].exclusive
    assert checkpoint.path.parent.stat().st_mode & 0o777 == 0o700
    assert checkpoint.path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_there_is_no_state(tmp_path: Path) -> None:
    assert Checkpoint(str(tmp_path), "balloons").read() == (None, "")


def test_a_file_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    checkpoint = written(tmp_path)
    checkpoint.path.chmod(0o620)
    with pytest.raises(
        ConfigError, match=r"topology-aware\.json: state file: other users can write it: its mode is 620"
    ):
        checkpoint.read()
    target = checkpoint.path.rename(tmp_path / "elsewhere")
    checkpoint.path.symlink_to(target)
    with pytest.raises(ConfigError, match=r"must not be a link \(remove it"):
        checkpoint.read()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "json: the file is empty"),
        (b"{", "not valid JSON"),
        (b" " * (MAX_BYTES + 1), f"json: longer than {MAX_BYTES} bytes"),
        (b"\xff", "codec can't decode"),
        (b'{"policy": "balloons"}', "written by the policy balloons"),
        (
            b'{"version":1,"policy":"topology-aware","containers":{},"grants":{},"balloons":[],"interrupts":{}}',
            "the file has version 1; this program reads version 3",
        ),
        (b"{}\n" * 5_000_000, "5000000 lines in the file exceed the limit of 32768"),
        (b"{" + b'"a":{},' * 2_000_000 + b'"a":{}}', "2000002 tables in the file exceed the limit of 32768"),
        (b"{" + b'"a":"",' * 2_000_000 + b'"a":""}', "2000001 values in the file exceed the limit of 524288"),
    ],
)
def test_an_invalid_file_is_reported_and_ignored(tmp_path: Path, text: bytes, words: str) -> None:
    checkpoint = written(tmp_path)
    checkpoint.path.write_bytes(text)
    state, complaint = checkpoint.read()
    assert state is None
    assert words in complaint
    assert str(checkpoint.path) in complaint


def test_a_pipe_instead_of_the_file_is_reported(tmp_path: Path) -> None:
    checkpoint = written(tmp_path)
    checkpoint.path.unlink()
    os.mkfifo(checkpoint.path, 0o600)
    assert checkpoint.read() == (None, f"{checkpoint.path}: not a regular file")
    checkpoint.path.unlink()
    checkpoint.path.mkdir(0o700)
    assert checkpoint.read() == (None, f"{checkpoint.path}: Is a directory")


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = written(tmp_path)
    monkeypatch.setattr(
        "os.lstat", lambda path: checkpoint.path.stat().__class__((0o100600, 0, 0, 1, 4321, 0, 0, 0, 0, 0))
    )
    with pytest.raises(ConfigError, match="it belongs to user 4321"):
        checkpoint.read()


def read_all(checkpoint: Checkpoint) -> PlacementState:
    state, complaint = Checkpoint(str(checkpoint.path.parent), "topology-aware").read()
    assert state is not None, complaint
    return state


def test_each_change_appends_a_line_until_the_file_is_rewritten(tmp_path: Path) -> None:
    policy, checkpoint = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    checkpoint.write(policy.saved())
    first, sizes, files = (
        checkpoint.path.read_bytes(),
        [checkpoint.path.stat().st_size],
        {checkpoint.path.stat().st_ino},
    )
    for number in range(2000):
        policy.create(container(f"c{number}", 100, qos="Burstable"))
        if number > 2:
            policy.release(f"c{number - 2}")
        checkpoint.write(policy.saved())
        files.add(checkpoint.path.stat().st_ino)
        sizes.append(checkpoint.path.stat().st_size)
        if number == 1:
            assert checkpoint.path.read_bytes().startswith(first)
            assert checkpoint.path.read_bytes().count(b"\n") == 3
            assert read_all(checkpoint) == policy.saved()
    assert len(files) > 1
    assert max(sizes) < 140_000
    assert read_all(checkpoint) == policy.saved()
    before = checkpoint.path.stat()
    checkpoint.write(policy.saved())
    assert checkpoint.path.stat() == before, "what has not changed is written"


def test_the_line_of_a_container_is_short_in_a_large_balloon(tmp_path: Path) -> None:
    policy, checkpoint = balloons(), Checkpoint(str(tmp_path), "balloons")
    for number in range(100):
        policy.create(container(f"c{number}"))
    checkpoint.write(policy.saved())
    before = checkpoint.path.stat().st_size
    policy.create(container("more"))
    checkpoint.write(policy.saved())
    assert 0 < checkpoint.path.stat().st_size - before < 300


@pytest.mark.parametrize(("limit", "maximum"), [("MAX_BYTES", 3000), ("MAX_TABLES", 30)])
def test_the_file_never_exceeds_the_limit_of_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, maximum: int
) -> None:
    monkeypatch.setattr(checkpoint, limit, maximum)
    policy, file = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    for number in range(50):
        policy.create(container("one", 100, qos="Burstable"))
        file.write(policy.saved())
        assert read_all(file) == policy.saved(), number
        policy.release("one")
        file.write(policy.saved())


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    policy, checkpoint = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    checkpoint.write(policy.saved())
    policy.create(container("one", 1000))
    checkpoint.write(policy.saved())
    data, answered = checkpoint.path.read_bytes(), policy.saved()
    policy.create(container("two", 1000))
    checkpoint.write(policy.saved())
    total = checkpoint.path.read_bytes()
    for length in range(len(data), len(total)):
        checkpoint.path.write_bytes(total[:length])
        assert read_all(checkpoint) == answered
    checkpoint.write(policy.saved())
    assert read_all(checkpoint) == policy.saved(), "a line follows one that has no end"


@pytest.mark.parametrize("news", [True, False])
@pytest.mark.parametrize("spoil", ["unlink", "replace", "write", "link"])
def test_a_file_that_was_changed_from_outside_is_rewritten(tmp_path: Path, spoil: str, news: bool) -> None:
    policy, checkpoint = topology_aware(), Checkpoint(str(tmp_path / "state"), "topology-aware")
    policy.create(container("one", 1500))
    checkpoint.write(policy.saved())
    if spoil == "unlink":
        checkpoint.path.unlink()
    elif spoil == "replace":
        copy = tmp_path / "copy"
        copy.write_bytes(checkpoint.path.read_bytes())
        copy.rename(checkpoint.path)
    elif spoil == "write":
        checkpoint.path.write_bytes(b"{}\n")
    else:
        checkpoint.path.symlink_to(checkpoint.path.rename(tmp_path / "elsewhere"))
    if news:
        policy.create(container("other", 1000))
    checkpoint.write(policy.saved())
    assert checkpoint.path.is_file()
    assert not checkpoint.path.is_symlink()
    assert read_all(checkpoint) == policy.saved()


def test_a_temporarily_full_disk_loses_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, checkpoint = topology_aware(), Checkpoint(str(tmp_path), "topology-aware")
    checkpoint.write(policy.saved())
    for name, wrote in (("one", 0), ("two", 7)):
        policy.create(container(name, 1000))
        real = os.write
        monkeypatch.setattr("os.write", lambda file, data, wrote=wrote, real=real: real(file, data[:wrote]))
        checkpoint.write(policy.saved())
        monkeypatch.undo()
        assert read_all(checkpoint) == policy.saved()


@pytest.mark.parametrize("line", ['{"nothing": {"a": null}}', '{"grants": 1}', "[]", '{"grants": [1]}', "{", '"x"'])
def test_an_invalid_line_is_reported(tmp_path: Path, line: str) -> None:
    checkpoint = written(tmp_path)
    with checkpoint.path.open("a") as file:
        file.write(f"{{}}\n{line}\n")
    state, complaint = checkpoint.read()
    assert state is None
    assert f"{checkpoint.path}:3: " in complaint
