"""A file of placement cases: passed, failed, and with a named deviation."""

import json
from pathlib import Path

import pytest

from nri.config.json_lines import read_json_lines
from nri.errors import ConfigError
from nri.placement.choices import Choices
from nri.placement.recorded.cases import run_file
from nri.placement.recorded.sequences import play
from tests.support.placement import DATA, guest

WHOLE = next(read_json_lines(DATA / "placement.json.xz", lambda _case: ""))
#: Cases on machines that are described, not read: they take a moment.
GUESTS = [case for case in WHOLE["placement_cases"] if not case["topology"].startswith("real-")]


def write(path: Path, *documents: object) -> Path:
    path.write_text("\n".join(map(json.dumps, documents)) + "\n")
    return path


def test_all_recorded_cases_pass_in_reference_mode(tmp_path: Path) -> None:
    file = write(tmp_path / "placement.json", {"topologies": WHOLE["topologies"], "placement_cases": GUESTS})
    assert [str(outcome) for outcome in run_file(file, reference=True) if outcome.differences] == []


def test_deviations_name_their_choice_and_keep_the_assertions(tmp_path: Path) -> None:
    file = write(tmp_path / "placement.json", {"topologies": WHOLE["topologies"], "placement_cases": GUESTS})
    outcomes = [outcome for outcome in run_file(file) if outcome.differences]
    assert all(outcome.choices for outcome in outcomes)
    actual = {choice for outcome in outcomes for choice in outcome.choices}
    assert actual == {"composites_keep_their_least", "memory_follows_cpus"}


def test_two_choices_with_the_same_effect_are_both_named(tmp_path: Path) -> None:
    """Each choice leaves an idle CPU that nri-plugins would take."""
    idle = [{"name": "idle0"}, {"name": "idle1"}]
    large_container = [{"name": "own", "cpu_request_m": 14000, "cpu_limit_m": 14000}]
    steps = [
        {"op": "create", "pod": qos, "namespace": "default", "qos": qos, "containers": containers}
        for qos, containers in (("BestEffort", idle), ("Guaranteed", large_container))
    ]
    config = {"reservedResources": {"cpu": "1"}}
    case = {"id": "one", "policy": "topology-aware", "topology": "guest", "config": config, "steps": steps,
            "node_memory_capacity_bytes": 8 << 30}  # fmt: skip
    for number, outcome in play(case, guest(), Choices.REFERENCE).run():
        steps[number]["expect"] = outcome
    described = {"topologies": {"guest": WHOLE["topologies"]["n4c16"]}, "placement_cases": [case]}
    (outcome,) = run_file(write(tmp_path / "placement.json", described))
    assert outcome.choices == ("lower_pools_keep_their_shares", "idle_containers_have_a_cpu")


def test_sequences_are_read_without_defaults_and_parts_by_name(tmp_path: Path) -> None:
    balloons = next(case for case in GUESTS if case["id"] == "bl10-allocopts")
    hints = {"hint_score_cases": WHOLE["hint_score_cases"]}
    total = write(tmp_path / "placement.json", {"topologies": WHOLE["topologies"], "placement_cases": [], **hints})
    assert [(outcome.case, outcome.differences) for outcome in run_file(total)] == [("hint_score_cases/0", [])]
    (outcome,) = run_file(write(tmp_path / "some.jsonl", balloons), reference=True)
    assert outcome.differences, "with the resource's default priority it was recorded, and not with none"


def test_a_failure_describes_the_difference(tmp_path: Path) -> None:
    case = json.loads(json.dumps(GUESTS[0]))
    case["steps"][0]["expect"] = {"changed": {}}
    described = {"topologies": WHOLE["topologies"], "placement_cases": []}
    write(tmp_path / "placement.json", described)
    (outcome,) = run_file(write(tmp_path / "some.jsonl", case))
    assert not outcome.choices
    assert str(outcome).startswith(f"case {case['id']} differs:\n  step 0 (create) changed: expected {{}}, got")


def test_sequences_require_the_file_with_their_machines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"placement\.json\.xz, the file with the machines, was not found"):
        list(run_file(write(tmp_path / "some.jsonl", GUESTS[0])))
