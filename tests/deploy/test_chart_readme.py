"""The README of each chart has a row with default and meaning for every value of the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.deployment.readme import SINGLE_ROWS, comments, leaves, readme

HELM = Path(__file__).resolve().parents[2] / "deploy/helm"
CHARTS = sorted(path.parent for path in HELM.glob("*/values.schema.json"))
ROW = re.compile(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
VALUES = "image: {name: r/i}\n# How loud.\nlevel: info # debug, info\nother: {}\n"
SCHEMA: dict[str, Any] = {"properties": {"level": {"enum": ["debug", "info"]}, "global": {"type": "object"}}}


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_every_value_has_a_row_with_its_meaning(chart: Path) -> None:
    rows = {path: meaning for path, _, _, meaning in ROW.findall((chart / "README.md").read_text())}
    schema = json.loads((chart / "values.schema.json").read_text())
    assert set(rows) <= {path for path, _ in leaves(schema, {*SINGLE_ROWS, *rows})}
    top = {path.partition(".")[0] for path, _ in leaves(schema, SINGLE_ROWS)}
    assert {path.partition(".")[0] for path in rows} == top
    assert all(rows.values())


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)
def test_every_default_equals_the_value_in_values_yaml(chart: Path) -> None:
    values = yaml.safe_load((chart / "values.yaml").read_text())
    rows = {path: default for path, _, default, _ in ROW.findall((chart / "README.md").read_text())}
    assert rows["image.name"] == f'`"{values["image"]["name"]}"`'
    if "maxUnavailable" in values:  # a DaemonSet
        assert rows["maxUnavailable"] == f"`{values['maxUnavailable']}`"


def test_a_comment_is_assigned_to_its_key_without_examples() -> None:
    text = "# One. For example:\n#   b: 1\na: {}\n\nb:\n  # Two\n  # lines.\n  c: 1\n  d: x # behind\n- e\n"
    assert comments(text) == {"a": "One.", "b.c": "Two lines.", "b.d": "behind"}


def test_a_row_has_type_default_and_meaning() -> None:
    text = readme({"name": "n", "description": "Does it."}, "# Made.\n", "docs/p.md", VALUES, SCHEMA, {})
    assert '| `level` | `debug` or `info` | `"info"` | debug, info |' in text
    assert "global" not in text


def test_a_value_without_a_meaning_is_an_error() -> None:
    schema = {"properties": {**SCHEMA["properties"], "odd": {"type": "string"}}}
    with pytest.raises(LookupError, match="n: the value odd has no meaning"):
        readme({"name": "n", "description": ""}, "", "", VALUES, schema, {})
