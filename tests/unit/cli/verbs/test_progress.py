"""Verbs that may take long show their progress at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nri.cli import output
from nri.cli.settings import Settings
from nri.cli.verbs import conformance, placement, predict, replay, trace
from tests.unit.cli.verbs.test_trace import folder as recording  # noqa: F401 - a fixture

POD = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "x"}]}}
CASE = {"id": "a", "op": "stop", "container": {"id": "c"}, "expect": {}}


@pytest.mark.parametrize(
    ("verb", "words", "expected"),
    [
        (trace.command, ["show", "{traces}"], "3 events ..."),
        (trace.command, ["stat", "{traces}"], "3 events ..."),
        (trace.command, ["export", "{traces}", "chrome"], "3 events ..."),
        (trace.command, ["cut", "{traces}", "{new}"], "3 events ..."),
        (predict.command, ["{traces}"], "3 events ..."),
        (replay.command, ["{traces}", "--plugin", "10=template"], "3 events ..."),
        (conformance.command, ["merge", "{cases}"], "1 case ..."),
        (placement.command, ["simulate", "--pods", "{pod}"], "1 pod ..."),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_at_a_terminal_each_verb_counts_its_work(
    verb: click.Command,
    words: list[str],
    expected: str,
    recording: Path,  # noqa: F811 - the fixture
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path_factory.mktemp("given")
    (folder / "cases").write_text(json.dumps(CASE))
    (folder / "pod").write_text(json.dumps(POD))
    monkeypatch.setattr(output, "COUNT_FROM_S", 0.0)
    monkeypatch.setattr(output, "COUNT_INTERVAL_S", 0.0)
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    argument = {"traces": recording, **{name: folder / name for name in ("new", "cases", "pod")}}
    result = CliRunner().invoke(verb, [word.format(**argument) for word in words], obj=Settings())
    assert f"\r\x1b[K{expected}" in result.stderr, result.output
    assert "\r\x1b[K" in result.stderr.rpartition("...")[2], "it goes away in the end"
