"""Recorded specs of the generator, and their differences."""

from typing import Any

import pytest

from nri.conformance.cases import run_spec_case

CASE: dict[str, Any] = {
    "id": "s",
    "op": "spec",
    "spec": {"ociVersion": "1.2.0", "process": {"env": ["A=1"], "cwd": "/"}, "mounts": []},
    "adjust": {"env": [{"key": "A", "value": "2"}]},
    "expect": {"spec": {"ociVersion": "1.2.0", "process": {"env": ["A=2"], "cwd": "/", "user": {"uid": 0, "gid": 0}}}},
}


def test_an_equivalent_spec_passes() -> None:
    assert run_spec_case(CASE) is None
    assert run_spec_case({**CASE, "adjust": None, "expect": {"spec": CASE["spec"]}}) is None


def test_a_different_spec_is_shown_as_a_diff() -> None:
    failure = run_spec_case({**CASE, "expect": {"spec": CASE["spec"]}})
    assert failure is not None
    assert (failure.case, failure.op) == ("s", "spec")
    assert '-    "A=1"' in failure.diff
    assert '+    "A=2"' in failure.diff


@pytest.mark.parametrize("expect", [{"error": "no"}, {}])
def test_a_missing_error_is_a_difference(expect: Any) -> None:
    assert run_spec_case({**CASE, "expect": expect}) is not None


def test_an_error_is_compared_by_its_text() -> None:
    case = {**CASE, "adjust": {"linux": {"namespaces": [{"type": "time"}]}}}
    assert run_spec_case({**case, "expect": {"error": 'unrecognized namespace "time"', "spec": {}}}) is None
    assert run_spec_case({**case, "expect": CASE["expect"]}) is not None


def test_propagation_is_tested_on_a_host_without_shared_mounts() -> None:
    mount = {"destination": "/a", "source": "/src", "options": ["rshared"]}
    error = 'failed to adjust mounts in OCI Spec: path "/src" mount propagation is "", not "rshared"'
    assert run_spec_case({**CASE, "adjust": {"mounts": [mount]}, "expect": {"error": error}}) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spec": None}, "it has no 'spec'"),
        ({"adjust": {"nothing": 1}}, 'has no field named "nothing"'),
    ],
)
def test_an_invalid_case_fails_without_a_traceback(change: dict[str, Any], reason: str) -> None:
    failure = run_spec_case({**CASE, **change})
    assert failure is not None
    assert failure.diff.startswith("the case cannot be read")
    assert reason in failure.diff


def test_a_generator_that_changes_its_spec_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from nri.oci import Generator

    monkeypatch.setattr(Generator, "adjust", lambda self, adjustment: self.spec.setdefault("x", {}) or self.spec)
    failure = run_spec_case({**CASE, "spec": {}})
    assert failure is not None
    assert failure.diff == "the generator changed its input spec"
