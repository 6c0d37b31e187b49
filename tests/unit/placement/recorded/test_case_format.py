"""An invalid case is an error with file, position and value."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nri.config.json_lines import read_json_lines
from nri.errors import ConfigError
from nri.placement.recorded.cases import run_file
from nri.placement.recorded.sequences import UNMET
from tests.support.placement import DATA

WHOLE = next(read_json_lines(DATA / "placement.json.xz", lambda _case: ""))
CASE = WHOLE["placement_cases"][0]


def written(folder: Path, **content: Any) -> Path:
    file = folder / "placement.json"
    file.write_text(json.dumps({"topologies": WHOLE["topologies"], "placement_cases": [], **content}))
    return file


def assertion(**words: Any) -> dict[str, Any]:
    return {"repo_assertions": [{"after_step": 0, **words}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (assertion(foo=1), "repo_assertions[0]: unknown assertion 'foo'; known assertions: cpu_count, "),
        (assertion(same_cpus=["nope"]), "repo_assertions[0]: same_cpus: no step creates the container 'nope'"),
        (assertion(same_cpus="pod0c0"), "repo_assertions[0]: same_cpus: 'pod0c0' does not name containers"),
        (assertion(cpus={"pod0c0": "x"}), "repo_assertions[0]: cpus: 'x' is not a list such as 0-3,8"),
        (assertion(after_step=99), "repo_assertions[0]: after_step 99 is out of range; the case has 6 steps"),
        ({"repo_assertions": [{"when": "end"}]}, "repo_assertions[0] has no key 'zone_attributes'"),
        (
            {"steps": [{"op": "explode", "expect": {}}]},
            "steps[0]: unknown step 'explode'; known steps: create,",
        ),
        ({"steps": [{"op": "delete", "expect": {}}]}, "steps[0] has no key 'pods'"),
        ({"steps": [{"expect": {}}]}, "steps[0] has no key 'op'"),
        ({"steps": [3]}, "steps[0] must be an object, not 3"),
        ({"steps": {}}, "steps must be a list, not {}"),
        ({"config": "x"}, "the case: config must be an object, not 'x'"),
        ({"node_memory_capacity_bytes": 0}, "node_memory_capacity_bytes must be above 0"),
        ({"topology_overrides": 3}, "topology_overrides must be an object, not 3"),
    ],
)
def test_an_invalid_sequence_is_an_error_with_its_position(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = written(tmp_path, placement_cases=[{**deepcopy(CASE), **change}])
    with pytest.raises(ConfigError) as error:
        list(run_file(file))
    assert str(error.value).startswith(f"{file}: {CASE['id']}: {words}")


@pytest.mark.parametrize(
    ("group", "part"),
    [("memory_zone_cases", {"id": "z"}), ("hint_score_cases", {"id": "z", "cases": "x"}), ("pool_cases", "z")],
)
def test_an_invalid_part_is_an_error_with_its_position(tmp_path: Path, group: str, part: Any) -> None:
    file = written(tmp_path, **{group: [part]})
    with pytest.raises(ConfigError, match="the case cannot be read: ") as error:
        list(run_file(file))
    assert str(error.value).startswith(f"{file}: {'z' if isinstance(part, dict) else f'{group}/0'}: ")


def test_invalid_machines_are_an_error_with_their_position(tmp_path: Path) -> None:
    for topologies, words in (("x", "topologies: must be an object"), ({"n4c16": 3}, f"{CASE['id']}: the case cannot")):
        with pytest.raises(ConfigError, match=words):
            list(run_file(written(tmp_path, topologies=topologies, placement_cases=[CASE])))


def test_zones_at_the_start_are_checked(tmp_path: Path) -> None:
    case = deepcopy(next(cas for cas in WHOLE["placement_cases"] if cas["id"] == "ta-n6-nrt"))
    (outcome,) = run_file(written(tmp_path, placement_cases=[case]))
    assert outcome.differences == []
    case["repo_assertions"][0]["zone_attributes"]["root"]["reserved cpuset"] = "0"
    (outcome,) = run_file(written(tmp_path, placement_cases=[case]))
    assert outcome.differences[0].startswith(UNMET)
