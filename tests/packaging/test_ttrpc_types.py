"""Types of `nri.ttrpc` in a type checker: replies have the requested type, and mistakes are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RIGHT = """
from typing import assert_type

from google.protobuf.wrappers_pb2 import StringValue

from nri.ttrpc import AsyncClient, AsyncClientStream, Client, ClientStream


def calls(client: Client) -> None:
    assert_type(client.call("s", "m"), bytes)
    assert_type(client.call("s", "m", StringValue(), StringValue), StringValue)
    assert_type(client.stream("s", "m", None, StringValue), ClientStream[StringValue])
    assert_type(client.stream("s", "m", streaming="server"), ClientStream[bytes])
    with client.stream("s", "m", None, StringValue, streaming="client") as stream:
        assert_type(stream.receive(), StringValue | None)
        assert_type(stream.result(), StringValue)
    for message in stream:
        assert_type(message, StringValue)


async def in_a_loop(client: AsyncClient) -> None:
    assert_type(await client.call("s", "m", b"", StringValue), StringValue)
    assert_type(client.stream("s", "m", None, StringValue), AsyncClientStream[StringValue])
    async for message in client.stream("s", "m", None, StringValue):
        assert_type(message, StringValue)
"""

WRONG = """
from google.protobuf.wrappers_pb2 import StringValue

from nri.ttrpc import Client


def calls(client: Client) -> None:
    client.call("s", "m", {"a": 1})
    client.call("s", "m", b"", StringValue).valeu
    client.stream("s", "m", streaming="bidi")
    client.stream("s", "m", None, StringValue).receive().value
"""


def checked(folder: Path, text: str) -> list[str]:
    """The errors that mypy finds."""
    file = folder / "program.py"
    file.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder / 'cache'}", str(file)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    return re.findall(r"program\.py:(\d+): error: .*\[(.*)\]", result.stdout)


def test_replies_have_the_requested_type(tmp_path: Path) -> None:
    assert checked(tmp_path, RIGHT) == []


def test_the_type_checker_finds_mistakes(tmp_path: Path) -> None:
    codes = [code for _, code in checked(tmp_path, WRONG)]
    assert codes == ["call-overload", "attr-defined", "call-overload", "union-attr"]
