"""The way of an event: what the tree shows, and when it is too long."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

import nri
from tools import way_of_an_event
from tools.way_of_an_event import PACKAGE, main

pytestmark = pytest.mark.pure

LINE = re.compile(r"^( *)([\w.<>]+)  (nri/[\w/]+\.py):(\d+)$")
#: Modules that an event passes only if its answer is late; a wait begins with a look for signals.
WAITING = ("nri/signals.py", "nri/ttrpc/monitor.py", "nri/ttrpc/waiting.py", "nri/ttrpc/waiters.py")
CALLS, FILES = 80, 20
SUM = re.compile(r"^(\d+) calls in (\d+) files$")


@pytest.fixture(params=[[], ["--through", "call"], ["--through", "fake-runtime"], ["--side", "plugin"]], ids=" ".join)
def printed(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of one run."""
    assert main(request.param) == 0
    return capsys.readouterr().out.splitlines()


def test_every_line_is_a_call_with_the_place_of_its_function_and_the_last_one_is_their_sum(printed: list[str]) -> None:
    *rows, last = printed
    found = [LINE.match(row) for row in rows]
    assert all(found), [row for row, match in zip(rows, found, strict=True) if match is None]
    files = set()
    for match in found:
        assert match is not None
        _, function, file, line = match.groups()
        files.add(file)
        near = (PACKAGE.parent / file).read_text().splitlines()[int(line) - 1 :][:4]  # decorators come first
        assert any(f"def {function.rpartition('.')[2]}(" in text for text in near), (
            f"{function} is not at {file}:{line}"
        )
    total = SUM.match(last)
    assert total is not None
    assert [int(number) for number in total.groups()] == [len(rows), len(files)]


def test_a_call_stands_one_step_below_its_caller(printed: list[str]) -> None:
    depths = [(len(row) - len(row.lstrip())) // 2 for row in printed[:-1]]
    assert depths[0] == 0
    assert all(0 <= deeper <= depth + 1 for depth, deeper in pairwise(depths))
    assert max(depths) > 3


def test_the_way_goes_from_the_call_to_the_socket_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    text = capsys.readouterr().out
    places = [text.index(f" {name}  ") for name in ("Trunk.send", "Trunk.receive")]
    assert 0 < text.index("Events.create_container  ") < places[0] < places[1]


@pytest.mark.parametrize(
    ("limit", "code"),
    [(["--limit-calls", "3"], 1), (["--limit-files", "3"], 1), ([], 0)],
)
def test_a_way_that_is_too_long_is_exit_code_1(limit: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--limit-calls", "9999", "--limit-files", "999", *limit]) == code
    said = capsys.readouterr().err
    assert ("too long" in said) == bool(code)
    assert not limit or f"at most {limit[1]}" in said


def short(way: list[str]) -> bool:
    """Whether a way, as the files of its calls, is within both bounds."""
    return len(way) <= CALLS and len(set(way)) <= FILES


def read_way(printed: str) -> list[str]:
    """The files of a way's calls, without those of waiting."""
    found = [LINE.match(row) for row in printed.splitlines()[:-1]]
    return [match[3] for match in found if match is not None and match[3] not in WAITING]


def test_the_way_of_a_creation_is_short_enough_to_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    # An answer that has to be waited for takes a turn by the monitor, and one look more at the socket: that is the
    # machine's business, and not part of the way as one reads it. So one of several ways must be within both bounds.
    ways: list[list[str]] = []
    while len(ways) < 30 and not any(map(short, ways)):
        main([])
        ways.append(read_way(capsys.readouterr().out))
    found = sorted({(len(way), len(set(way))) for way in ways})
    least = min(ways, key=lambda way: (len(set(way)), len(way)))
    assert any(map(short, ways)), f"(calls, files) of each: {found}; of the least: {sorted(set(least))}"


def test_a_late_answer_makes_the_way_of_a_creation_no_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = way_of_an_event.PodName.create_container

    def late(self: way_of_an_event.PodName, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        time.sleep(0.02)
        return answer(self, pod, container)

    monkeypatch.setattr(way_of_an_event.PodName, "create_container", late)
    main([])
    printed = capsys.readouterr().out
    assert "nri/signals.py" in printed, "the answer was not late"
    assert short(read_way(printed)), printed


def test_the_compiled_build_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(way_of_an_event.trunk, "__file__", str(Path("/x/trunk.cpython-311.so")))
    assert main([]) == 2
    assert "compiled build" in capsys.readouterr().err
