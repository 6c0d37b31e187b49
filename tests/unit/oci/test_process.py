"""The process of a spec. Tests of deviations are named like the attributes of `Rules`, and show both modes."""

from typing import Any

import pytest

from nri.errors import SpecError
from nri.rules import Rules
from tests.unit.oci.build import adjust, both_modes


def env(*entries: str) -> dict[str, Any]:
    return {"process": {"env": list(entries)}}


def of(spec: dict[str, Any]) -> list[str]:
    return spec.get("process", {}).get("env", [])


def variables(**values: str | None) -> list[dict[str, str]]:
    return [{"key": f"-{key}"} if value is None else {"key": key, "value": value} for key, value in values.items()]


def test_a_variable_is_replaced_in_place_and_a_new_one_is_last() -> None:
    new_spec = adjust(env("A=1", "B=2", "C=3"), env=variables(D="4", B="x", C=None))
    assert of(new_spec) == ["A=1", "B=x", "D=4"]


def test_without_variables_the_environment_is_unchanged() -> None:
    spec = env("A=1", "bare")
    assert adjust(spec, Rules.REFERENCE) == spec


def test_removing_a_missing_variable_changes_nothing() -> None:
    assert adjust({}, env=variables(A=None)) == {}


def test_a_variable_without_a_name_is_ignored() -> None:
    assert adjust({}, env=[{"key": "", "value": "x"}]) == {}


def test_env_adjustment_wins() -> None:
    def modes(spec: dict[str, Any], *entries: dict[str, str]) -> tuple[list[str], list[str]]:
        reference, default = both_modes("env_adjustment_wins", spec, env=list(entries))
        return of(reference), of(default)

    value, removal = {"key": "A", "value": "new"}, {"key": "-A"}
    assert modes(env("A=1", "B=2", "A=3"), value) == (["A=3", "B=2"], ["A=new", "B=2"])
    assert modes(env("A=1", "B=2", "A=3"), removal) == (["B=2", "A=3"], ["B=2"])
    assert modes(env("B=2"), value, removal) == (["B=2", "A=new"], ["B=2"])
    assert modes(env("A=1"), removal, value) == (["A=new"], ["A=new"])
    assert modes(env("C=1", "C=2"), value) == (["C=2", "A=new"], ["C=1", "C=2", "A=new"])


def test_bare_env_kept() -> None:
    reference, default = both_modes("bare_env_kept", env("BARE", "A=1"), env=variables(B="2"))
    assert (of(reference), of(default)) == (["A=1", "B=2"], ["BARE", "A=1", "B=2"])


def test_arguments_are_replaced_unless_empty() -> None:
    spec = {"process": {"args": ["sh"]}}
    assert adjust(spec, args=["sleep", "1"])["process"]["args"] == ["sleep", "1"]
    assert adjust(spec, args=[]) == spec


def test_hooks_are_added_after_existing_hooks() -> None:
    spec = {"hooks": {"prestart": [{"path": "/a"}]}}
    hook = {"path": "/b", "args": ["b", "c"], "env": ["A=1"], "timeout": {"value": 3}}
    new_spec = adjust(spec, hooks={"prestart": [hook], "create_container": [{"path": "/c"}]})
    assert new_spec["hooks"] == {
        "prestart": [{"path": "/a"}, {"path": "/b", "args": ["b", "c"], "env": ["A=1"], "timeout": 3}],
        "createContainer": [{"path": "/c"}],
    }


def test_rlimits_replace() -> None:
    row = {"type": "RLIMIT_NOFILE", "hard": 5, "soft": 5}
    spec = {"process": {"rlimits": [row, {**row, "type": "RLIMIT_CORE"}, row]}}
    new = {"type": "RLIMIT_NOFILE", "hard": 9, "soft": 8}
    reference, default = both_modes("rlimits_replace", spec, rlimits=[new])
    assert reference["process"]["rlimits"] == [*spec["process"]["rlimits"], new]
    assert default["process"]["rlimits"] == [new, {**row, "type": "RLIMIT_CORE"}]
    assert adjust({}, rlimits=[new]) == {"process": {"rlimits": [new]}}


def test_setting_an_annotation_overrides_its_removal() -> None:
    spec = {"annotations": {"a": "1", "b": "2"}}
    new_spec = adjust(spec, annotations={"-a": "", "-b": "", "b": "3", "c": "4"})
    assert new_spec["annotations"] == {"b": "3", "c": "4"}


def test_the_oom_score_is_set() -> None:
    assert adjust({}, linux={"oom_score_adj": {"value": -5}}) == {"process": {"oomScoreAdj": -5}}
    assert adjust({}, linux={"oom_score_adj": {}}) == {"process": {"oomScoreAdj": 0}}


def test_the_io_priority_is_set_and_class_none_removes_it() -> None:
    new_spec = adjust({}, linux={"io_priority": {"class": "IOPRIO_CLASS_BE", "priority": 3}})
    assert new_spec == {"process": {"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 3}}}
    assert adjust(new_spec, linux={"io_priority": {"priority": 3}}) == {"process": {}}


def test_the_scheduler_is_set_and_policy_none_removes_it() -> None:
    policy = {"policy": "SCHED_FIFO", "priority": 2, "flags": ["SCHED_FLAG_RECLAIM"], "period": "7"}
    new_spec = adjust({}, linux={"scheduler": policy})
    assert new_spec == {
        "process": {"scheduler": {"policy": "SCHED_FIFO", "priority": 2, "flags": ["SCHED_FLAG_RECLAIM"], "period": 7}}
    }
    assert adjust(new_spec, linux={"scheduler": {"policy": "SCHED_NONE"}}) == {"process": {}}


def test_unknown_values_refused() -> None:
    adjusted = {"scheduler": {"policy": 99, "flags": [98]}, "memory_policy": {"mode": 97}}
    spec = {"linux": {"memoryPolicy": {"mode": "MPOL_BIND"}}, "process": {"ioPriority": {"class": "IOPRIO_CLASS_RT"}}}
    new_spec = adjust(spec, Rules.REFERENCE, linux={**adjusted, "io_priority": {"class": 96}})
    assert new_spec == {"process": {"scheduler": {"policy": "", "flags": [""]}}, "linux": {}}
    with pytest.raises(SpecError, match="LinuxScheduler: 99 is not a value of LinuxSchedulerPolicy"):
        adjust(spec, linux=adjusted)
