"""Recorded outcomes of Koordinator's hooks, compared with our outcomes in reference mode and by default."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator.quirks import Quirks
from nri.config.json_lines import read_json_lines
from tests.hook_cases import STATED, is_left_out, run_hook_case, stages, wrong
from tests.support.deviation_rows import deviation_rows

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "data" / "koordinator-hooks.jsonl.xz"
RUN, LEFT_OUT = 219, 53
#: Cases with a different outcome by default, each with the row of docs/deviations-agent.md.
DEVIATIONS = {
    "coresched/helper.pod_enabled/004": {"groups_of_labels_apart"},
    "coresched/helper.pod_enabled/010": {"groups_of_labels_apart"},
    "coresched/reconcile.container/006": {"groups_of_labels_apart"},
    "coresched/reconcile.container/010": {"groups_of_labels_apart"},
    "coresched/reconcile.container/012": {"groups_of_labels_apart"},
    "coresched/rule.apply/006": {"groups_of_labels_apart"},
    "coresched/setup.load_cookies/002": {"groups_of_labels_apart"},
    "cpuset/rule.apply/001": {"best_effort_cpus_left"},
    "resctrl/PreCreateContainer/002": {"resctrl_class_needs_group"},
}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return list(read_json_lines(CASES, wrong))


EXTENDED = "node.koordinator.sh/extended-resource-spec"
BATCH_POD = {
    "labels": {"koordinator.sh/qosClass": "BE"},
    "annotations": {
        EXTENDED: json.dumps(
            {
                "containers": {
                    "main": {
                        "requests": {"kubernetes.io/batch-cpu": "500"},
                        "limits": {"kubernetes.io/batch-cpu": "500"},
                    }
                }
            }
        )
    },
}
BROKEN_POD = {"annotations": {"scheduling.koordinator.sh/resource-status": "{"}}


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.hook_cases", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)


def write(path: Path, cases: list[Any]) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def test_in_reference_mode_every_outcome_equals_the_recorded_outcome(cases: list[dict[str, Any]]) -> None:
    actual = [case for case in cases if not is_left_out(case)]
    failures = [failure for case in actual if (failure := run_hook_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(actual)} differ; the first: {failures[0]}"
    assert (len(cases), len(actual)) == (RUN + LEFT_OUT, RUN)


def test_a_documented_deviation_passes_only_with_its_outcome_and_has_a_row(
    cases: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_id = {case["id"]: case for case in cases}
    assert len(STATED) == 5 and set(by_id) >= set(STATED)
    assert set(deviation_rows("Koordinator")) >= {stated["row"] for stated in STATED.values()}
    for name, stated in list(STATED.items()):
        assert stated["expect"] != by_id[name]["expect"]
        monkeypatch.setitem(STATED, name, {**stated, "expect": by_id[name]["expect"]})
        assert run_hook_case(by_id[name]) is not None, name


def test_by_default_only_documented_deviations_differ(cases: list[dict[str, Any]]) -> None:
    actual = [case for case in cases if not is_left_out(case)]
    differing = {case["id"] for case in actual if run_hook_case(case, Quirks.DEFAULT) is not None}
    assert differing == set(DEVIATIONS)


def test_each_deviation_depends_on_named_choices(cases: list[dict[str, Any]]) -> None:
    for name, attributes in DEVIATIONS.items():
        case = next(case for case in cases if case["id"] == name)
        other_rows = {field.name: field.name not in attributes for field in fields(Quirks)}
        assert run_hook_case(case, Quirks(**other_rows)) is None, name


def test_only_stages_that_cannot_run_are_skipped() -> None:
    split = [name.partition("/") for name in stages()]
    assert not [name for hook, _, name in split if is_left_out({"hook": hook, "stage": name})]


def test_an_unknown_stage_fails(cases: list[dict[str, Any]]) -> None:
    failure = run_hook_case({**cases[0], "stage": "PreNothing"})
    assert failure is not None
    assert "not known" in failure.diff


def test_every_stage_detects_a_wrong_expectation() -> None:
    """Every stage compares something: a wrong expectation of each is found."""
    for name in stages():
        hook, _, stage = name.partition("/")
        case = {"id": name, "hook": hook, "stage": stage, "input": {}, "expect": {"never": "there"}}
        assert run_hook_case(case) is not None, name


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each key in an input."""
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield (*path, key)
        yield from places(entry, (*path, key))


def with_null(case: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(case)
    inner = changed["input"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = None
    return changed


def test_a_null_key_counts_as_absent(cases: list[dict[str, Any]]) -> None:
    """The rule of the file of cases. Only the numbers of a device node are required."""
    tried = 0
    for case in [case for case in cases if not is_left_out(case)][::3]:
        for path in places(case["input"]):
            failure = run_hook_case(with_null(case, path))
            assert failure is None or "device_nodes_major_minor" in path or "cannot be run" not in failure.diff, path
            tried += 1
    assert tried > 500


@pytest.mark.parametrize(
    ("name", "argument", "expect"),
    [
        ("runtimeproxy/store.pod", {"check_pointed_pod_sandbox": {"a": 1}, "pod_sandbox_id": "p"},
         {"pod_sandbox": {"a": 1}, "entries": 1}),
        ("runtimeproxy/failover.container",
         {"container": {"metadata": {"name": "c", "attempt": 1}, "annotations": {"k": "v"}},
          "existing_pod": {"request": {"pod_meta": {"name": "p"}, "labels": {"l": "1"}}}},
         {"container_meta_data": {"name": "c", "attempt": 1}, "pod_meta_data": {"name": "p"}, "pod_labels": {"l": "1"},
          "container_annotations": {"k": "v"}, "error": False}),
        ("runtimeproxy/parse.create_container",
         {"existing_pod": {"request": {"pod_meta": {"name": "p"}}},
          "create_request": {"config": {"metadata": {"name": "c"}, "envs": [{"key": "A", "value": "MQ=="}]}}},
         {"container_info": {"request": {"pod_meta": {"name": "p"}, "container_meta": {"name": "c"},
                                         "container_envs": {"A": "1"}}}}),
        ("runtimeproxy/parse.run_pod_sandbox",
         {"run_pod_request": {"config": {"metadata": {"name": "p"}, "linux": {"cgroup_parent": "/k"}}}},
         {"pod_sandbox_info": {"request": {"pod_meta": {"name": "p"}, "cgroup_parent": "/k"}}}),
        ("batchresource/reconcile.container",
         {"pod": {"labels": {"koordinator.sh/qosClass": "BE"}},
          "container": {"extended_resources": {"limits": {"kubernetes.io/batch-cpu": "500"}}}},
         {"cfs_quota": 50_000, "cpu_shares": 2, "memory_limit": -1, "error": False}),
        ("cpunormalization/reconcile.pod",
         {"pod": {"resources": {"cfs_quota": 120_000}}, "rule": {"enabled": True, "ratio": 1.2}},
         {"cfs_quota": 100_000, "error": False}),
        ("cpuset/reconcile.pod",
         {"pod": {"annotations": {"scheduling.koordinator.sh/resource-status": '{"cpuset": "2-3"}'}}},
         {"cfs_quota": -1, "error": False}),
        ("protocol/convert.proxy_to_pod", {"proxy_pod_request": {"pod_meta": {"name": "p"}, "cgroup_parent": "/k"}},
         {"request": {"pod": {"name": "p"}, "cgroup_parent": "/k"}}),
        ("nri_server/Configure", {"config": ""}, {"error": False}),
        ("nri_server/Configure", {"config": "events: []"}, {"error": False}),
        ("nri_server/Configure", {"config": "events: [RunPodSandbox, '']"}, {"error": True}),
        ("nri_server/Configure", {"config": "events: nothing"}, {"error": True}),
        ("nri_server/PreRunPodSandbox", {"pod": BATCH_POD, "options": {"failure_policy": "Fail"}},
         {"cpu_shares": 512, "memory_limit": -1, "cfs_quota": 50_000, "error": False}),
        ("nri_server/PreRunPodSandbox", {"pod": BROKEN_POD, "options": {"failure_policy": "Fail"}}, {"error": True}),
        ("nri_server/PreRunPodSandbox", {"pod": BROKEN_POD, "options": {"failure_policy": "Ignore"}}, {"error": False}),
        ("nri_server/PreCreateContainer", {"pod": BATCH_POD, "container": {"name": "main"}},
         {"cpu_shares": 512, "memory_limit": -1, "cfs_quota": 50_000, "error": False}),
        ("resctrl/rule.parse.pods", {"update_is_pods_trigger": True}, {"updated": True, "error": False}),
    ],
)  # fmt: skip
def test_stages_without_a_recorded_case_accept_the_input_of_their_kind(
    name: str, argument: dict[str, Any], expect: dict[str, Any]
) -> None:
    hook, _, stage = name.partition("/")
    assert run_hook_case({"id": name, "hook": hook, "stage": stage, "input": argument, "expect": expect}) is None


def test_the_program_prints_the_number_of_passed_cases() -> None:
    result = run(CASES, "--compat", "reference")
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [f"{LEFT_OUT} left out: helpers that only the original has", f"{RUN} passed, 0 failed"],
    ), result.stderr


def test_the_program_shows_a_difference_as_a_diff(tmp_path: Path, cases: list[dict[str, Any]]) -> None:
    case = next(case for case in cases if case["expect"].get("bvt") == -1)
    result = run(write(tmp_path / "wrong.jsonl", [{**case, "expect": {**case["expect"], "bvt": 7}}]))
    assert result.returncode == 1
    assert f"case {case['id']} " in result.stdout
    assert '- "bvt": 7' in result.stdout
    assert '+ "bvt": -1' in result.stdout
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_the_program_shows_deviations_in_default_mode(cases: list[dict[str, Any]]) -> None:
    result = run("--compat", "default", CASES)
    assert result.returncode == 1
    assert all(name in result.stdout for name in DEVIATIONS)


def test_a_file_without_a_hook_case_is_an_error(tmp_path: Path) -> None:
    result = run(write(tmp_path / "merge.jsonl", [{"id": "m", "op": "create", "expect": {}}]))
    assert result.returncode == 1
    assert "no case of a hook" in result.stderr


@pytest.mark.parametrize(
    "line", [{"id": "a"}, {"id": "a", "expect": {}}, {"id": "a", "hook": 1, "stage": "", "expect": {}}]
)
def test_an_invalid_line_ends_with_code_1(tmp_path: Path, line: dict[str, Any]) -> None:
    result = run(write(tmp_path / "odd.jsonl", [line]))
    assert result.returncode == 1
    assert "not a case" in result.stderr


@pytest.mark.parametrize("argument", [{"pods": 5}, {"rule": []}, {"pod": "x"}, {"pod": {"annotations": 7}}])
def test_an_invalid_case_fails_without_a_traceback(argument: dict[str, Any]) -> None:
    results = []
    for name in stages():
        hook, _, stage = name.partition("/")
        results.append(run_hook_case({"id": name, "hook": hook, "stage": stage, "input": argument, "expect": {}}))
    assert any(failure is not None and "the case cannot be run" in failure.diff for failure in results)
