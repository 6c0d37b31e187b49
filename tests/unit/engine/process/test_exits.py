"""What conmon leaves of a container that ended."""

from pathlib import Path

import pytest

from nri.engine.process.exits import read_exit


@pytest.mark.parametrize(
    ("text", "oom", "code", "reason"),
    [
        ("0", False, 0, "Completed"),
        ("3\n", False, 3, "Error"),
        ("137", True, 137, "OOMKilled"),
        ("0", True, 0, "Completed"),
    ],
)
def test_the_code_and_the_reason_are_read(tmp_path: Path, text: str, oom: bool, code: int, reason: str) -> None:
    (tmp_path / "c1").write_text(text)
    (tmp_path / "persist").mkdir()
    if oom:
        (tmp_path / "persist/oom").touch()
    found = read_exit(tmp_path, "c1", tmp_path)
    assert found is not None
    assert (found.code, found.reason, found.finished_at_ns) == (code, reason, (tmp_path / "c1").stat().st_mtime_ns)


def test_a_container_that_left_nothing_readable_has_no_end(tmp_path: Path) -> None:
    assert read_exit(tmp_path, "c1", tmp_path) is None
    (tmp_path / "c1").write_text("")
    assert read_exit(tmp_path, "c1", tmp_path) is None
