"""Texts and bytes that a command line names."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from nri.cli.errors import USAGE, Failure
from nri.cli.support.inputs import pair_of, read_argument, read_capture, unhex


def test_an_argument_is_a_text_a_file_or_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text("{}")
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1]"))
    assert [read_argument(text) for text in ("x", f"@{tmp_path}/a.json", "-")] == ["x", "{}", "[1]"]


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff")
    with pytest.raises(Failure, match="not UTF-8 text") as caught:
        read_argument(f"@{tmp_path}/a.json")
    assert caught.value.code == USAGE


@pytest.mark.parametrize("text", ["0a00ff", "0A 00 FF", "0x0a,0x00,0xff", "\\x0a\\x00\\xff", "0a:00|ff\n"])
def test_hex_can_have_the_format_of_common_tools(text: str) -> None:
    assert unhex(text) == b"\x0a\x00\xff"


@pytest.mark.parametrize(
    ("text", "reason"), [("0g", 'not hex: "g" is not a hex digit'), ("abc", "not hex: an odd number of digits")]
)
def test_invalid_hex_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(Failure) as caught:
        unhex(text)
    assert (caught.value.message, caught.value.code) == (reason, USAGE)


def test_a_capture_can_be_bytes_or_hex(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(b"\x00\x01z")
    assert read_capture(str(path)) == b"\x00\x01z"
    path.write_bytes(b"00 01\n")
    assert read_capture(str(path)) == read_capture("0001") == b"\x00\x01"
    path.write_bytes(b"")
    assert read_capture(str(path)) == b""


def test_a_pair_is_split_at_the_first_equals_sign_and_its_key_is_lowercase() -> None:
    assert pair_of("Key=v=1") == ("key", "v=1")
    assert pair_of("k=") == ("k", "")
    for text in ("x", "=v"):
        with pytest.raises(Failure, match="is not KEY=VALUE"):
            pair_of(text)
