"""Files as sources: reading and formats."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from nri.config import Source, read_file
from nri.errors import ConfigError
from tests.support.commands import unmeasured


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.toml", "toml"), ("a.json", "json"), ("a.yaml", "yaml"), ("a.yml", "yaml"), ("10-a.conf", "auto")],
)
def test_the_suffix_determines_the_format(tmp_path: pathlib.Path, name: str, kind: str) -> None:
    (tmp_path / name).write_text("x")
    assert read_file(tmp_path / name).format == kind


def test_a_missing_file_is_an_error_with_its_path(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot read it: No such file or directory"):
        read_file(tmp_path / "gone.toml")


def test_bytes_that_are_not_text_are_an_error_with_their_position(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.conf").write_bytes(b"ab\xff")
    with pytest.raises(ConfigError, match="not UTF-8 text: byte 2 is 0xff"):
        read_file(tmp_path / "a.conf")


def test_a_wrong_file_does_not_fill_memory(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        read_file(tmp_path / "a")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_file("/dev/zero")


def test_a_byte_order_mark_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.conf").write_bytes(b"\xef\xbb\xbf{}")
    assert read_file(tmp_path / "a.conf").text == "{}"


def test_importing_the_package_imports_no_parser() -> None:
    parsers = {"nri.config.typed", "yaml", "json", "dataclasses", "tomllib"}
    code = f"import sys, nri.config; print(sorted({parsers} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=unmeasured(), capture_output=True, text=True, check=True
    ).stdout
    assert loaded.strip() == "[]", "a plugin without configuration must not pay for parsers"


@pytest.mark.parametrize(("changes", "reads"), [(0, 1), (1, 2), (9, 3)])
def test_a_file_that_changes_during_reading_is_read_again_a_few_times(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, changes: int, reads: int
) -> None:
    looks: list[int] = []

    def look(status: object) -> tuple[int, ...]:
        looks.append(1)
        return (len(looks) if len(looks) <= 2 * changes else 0,)

    monkeypatch.setattr("nri.config.source.fingerprint_of", look)
    (tmp_path / "a.conf").write_text("x")
    assert read_file(tmp_path / "a.conf").text == "x"
    assert len(looks) == 2 * reads


def test_a_source_is_shown_without_its_text() -> None:
    assert repr(Source("a.conf", "secret", "json")) == "Source('a.conf', 6 characters, 'json')"


def test_a_pipe_does_not_block(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "policy.toml")
    with pytest.raises(ConfigError, match=r"policy.toml: cannot read it: not a regular file"):
        read_file(tmp_path / "policy.toml")
