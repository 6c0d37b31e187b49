"""Our resource-annotator gives the recorded answers of nri-plugins', except for the listed cases.

The answers are in tests/data/plugins/resource-annotator.jsonl; the README there describes the capture.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from nri.plugins.resource_annotator.admission import answer

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/plugins/resource-annotator.jsonl").read_text().splitlines()
]
#: A review of a deletion has no object, and a patch of it would keep the pod.
DIFFERENT = {"no object"}


def plain(review: dict[str, Any]) -> dict[str, Any]:
    """The content of an answer, with the annotation's JSON parsed."""
    response = review["response"]
    created = {"uid": response["uid"], "allowed": response["allowed"]}
    if "patch" in response:
        created["patch"] = json.loads(b64decode(response["patch"]))
        for entry in created["patch"]:
            entry["value"] = json.loads(entry["value"]) if isinstance(entry["value"], str) else entry["value"]
    return created


@pytest.mark.parametrize("row", ROWS, ids=[row["case"] for row in ROWS])
def test_every_answer_except_the_listed_ones_equals_nri_plugins(row: dict[str, Any]) -> None:
    actual = plain(answer(json.dumps(row["review"]).encode()).review)
    assert (actual != row["answer"]) is (row["case"] in DIFFERENT)
