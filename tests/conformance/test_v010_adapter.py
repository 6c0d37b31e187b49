"""The adapter for plugins of protocol 0.1.0, compared with recordings of the reference's adapter.

The reference's requests and errors are in tests/data/plugins/v010-adapter.jsonl; the README there describes how they
were captured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nri.api import messages as m
from nri.errors import PluginError
from nri.plugins.v010_adapter.plugin import V010Adapter
from nri.testing import FakeRuntime
from tests.support.v010 import Node

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/plugins/v010-adapter.jsonl").read_text().splitlines()
]

#: Cases whose error differs, with our error ("" for none). Each has a row in docs/deviations-plugins.md.
DIFFERENT = {
    "a broken configuration": "",
    "an error at the end of a pod": "",
}
#: Marks in the reference's errors: our error equals the reference's only up to the mark.
SAME_UPTO = (": unexpected end", ": invalid character", ": json:", " (")


@pytest.mark.parametrize("case", CASES, ids=[case["case"].replace(" ", "-") for case in CASES])
def test_requests_and_errors_equal_the_references(
    nri_runtime: FakeRuntime, tmp_path: Path, case: dict[str, Any]
) -> None:
    node = Node(tmp_path)
    node.name()
    nri_runtime.add(V010Adapter(), config=node.config)
    node.write(case["conf"])
    arguments: list[Any] = [ParseDict(case["pod"], m.PodSandbox())]
    if "container" in case:
        arguments.append(ParseDict(case["container"], m.Container()))
    error = ""
    try:
        getattr(nri_runtime, case["event"])(*arguments)
    except PluginError as raised:
        error = str(raised)
    assert node.requests() == case["requests"]
    reference = DIFFERENT.get(case["case"], case.get("error", "").partition(" desc = ")[2])
    actual = error.removeprefix("plugin 10-v010-adapter refused: ")
    for mark in SAME_UPTO:
        if mark in reference:
            reference = reference.partition(mark)[0]
    assert actual.startswith(reference)
    assert bool(actual) == bool(reference)
