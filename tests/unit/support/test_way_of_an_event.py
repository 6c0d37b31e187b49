"""The call tree of an event."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tools import way_of_an_event
from tools.way_of_an_event import PACKAGE, main

pytestmark = pytest.mark.pure

LINE = re.compile(r"^( *)([\w.<>]+)  (nri/[\w/]+\.py):(\d+)$")
SUM = re.compile(r"^(\d+) calls in (\d+) files$")


@pytest.fixture(params=[[], ["--through", "call"], ["--through", "fake-runtime"], ["--side", "plugin"]], ids=" ".join)
def printed(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of one run."""
    assert main(request.param) == 0
    return capsys.readouterr().out.splitlines()


def test_every_line_is_a_call_and_the_last_line_is_the_sum(printed: list[str]) -> None:
    *rows, last = printed
    matches = [LINE.match(row) for row in rows]
    assert all(matches), [row for row, match in zip(rows, matches, strict=True) if match is None]
    files = set()
    for match in matches:
        assert match is not None
        _, function, file, line = match.groups()
        files.add(file)
        definition = (PACKAGE.parent / file).read_text().splitlines()[int(line) - 1 :][:4]  # decorators come first
        assert any(f"def {function.rpartition('.')[2]}(" in text for text in definition), (
            f"{function} is not at {file}:{line}"
        )
    total = SUM.match(last)
    assert total is not None
    assert [int(number) for number in total.groups()] == [len(rows), len(files)]


def test_a_call_is_indented_below_its_caller(printed: list[str]) -> None:
    depths = [(len(row) - len(row.lstrip())) // 2 for row in printed[:-1]]
    assert depths[0] == 0
    assert all(0 <= deeper <= depth + 1 for depth, deeper in pairwise(depths))
    assert max(depths) > 3


def test_the_tree_has_the_calls_from_the_runtime_to_the_socket_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    text = capsys.readouterr().out
    places = [text.index(f" {name}  ") for name in ("Trunk.send", "Trunk.receive")]
    assert 0 < text.index("Events.create_container  ") < places[0] < places[1]


def test_the_compiled_build_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(way_of_an_event.trunk, "__file__", str(Path("/x/trunk.cpython-311.so")))
    assert main([]) == 2
    assert "compiled build" in capsys.readouterr().err
