"""Files of others: whole or not at all, and never outside of their folder."""

from __future__ import annotations

import resource
from pathlib import Path

from nri.agent.koordinator import terway
from nri.host import Outcome, Root


def test_a_file_is_replaced_in_one_step_and_not_touched_while_it_is_right(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    root = Root(tmp_path)
    assert terway.replace_file(root, "/d", "f", "one").outcome is Outcome.APPLIED
    first = (tmp_path / "d" / "f").stat().st_ino
    assert terway.replace_file(root, "/d", "f", "one").outcome is Outcome.UNCHANGED
    assert (tmp_path / "d" / "f").stat().st_ino == first
    with (tmp_path / "d" / "f").open() as reader:
        assert terway.replace_file(root, "/d", "f", "two").outcome is Outcome.APPLIED
        assert reader.read() == "one"
    assert (tmp_path / "d" / "f").read_text() == "two"
    assert [each.name for each in (tmp_path / "d").iterdir()] == ["f"]


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    result = terway.replace_file(Root(tmp_path), "/d", "f", "one")
    assert result.outcome is Outcome.GONE
    assert terway.remove_file(Root(tmp_path), "/d", "f").outcome is Outcome.UNCHANGED
    assert not list(tmp_path.iterdir())


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d" / "f").symlink_to(secret)
    (root / "d" / ".f.nri").symlink_to(secret)
    assert terway.replace_file(Root(root), "/d", "f", "one").outcome is Outcome.APPLIED
    assert secret.read_text() == "mine"
    assert (root / "d" / "f").read_text() == "one"
    assert not (root / "d" / "f").is_symlink()


def test_a_file_is_removed_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    outcomes = [terway.remove_file(Root(tmp_path), "/", "f").outcome for _ in range(2)]
    assert outcomes == [Outcome.APPLIED, Outcome.UNCHANGED]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    result = terway.replace_file(Root(tmp_path), "/", "f", "one")
    assert result.outcome is Outcome.REFUSED
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_a_disk_that_takes_no_more_leaves_the_old_file_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        result = terway.replace_file(Root(tmp_path), "/", "f", "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "File too large")
    assert (tmp_path / "f").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["f"]
