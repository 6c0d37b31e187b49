"""`nri conformance` as a group of verbs. Its runs on recorded cases: see tests/conformance."""

from __future__ import annotations

import json

GOOD = {"id": "good", "op": "stop", "container": {"id": "c"}, "expect": {}}
BAD = {"id": "bad", "op": "stop", "container": {"id": "c"}, "expect": {"error": "no"}}
OTHER = {"id": "1", "op": "spec", "expect": {}}


def write(tmp_path, *cases) -> str:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)


def test_nothing_run_is_no_pass(nri, tmp_path) -> None:
    done = nri("conformance", "merge", write(tmp_path, OTHER))
    assert (done.returncode, done.stdout) == (1, "0 passed, 0 failed\n"), done.stderr
    assert "no create or stop or update case in there, so nothing was run; 1 of other kinds were skipped" in done.stderr
    assert nri("conformance", "merge", write(tmp_path)).returncode == 1


def test_json_has_the_numbers_and_the_failures(nri, tmp_path) -> None:
    done = nri("conformance", "merge", "-o", "json", write(tmp_path, GOOD, BAD, OTHER))
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)
    assert [(one["case"], one["op"]) for one in found["failures"]] == [("bad", "stop")]
    assert found["failures"][0]["diff"]


def test_quiet_prints_the_names_of_failing_cases_only(nri, tmp_path) -> None:
    path = write(tmp_path, GOOD, BAD)
    for words in (("conformance", "merge", "-q"), ("-q", "conformance", "merge"), ("conformance", "-q", "merge")):
        done = nri(*words, path)
        assert (done.returncode, done.stdout) == (1, "bad\n"), done.stderr
    assert nri("conformance", "merge", "-q", write(tmp_path, GOOD)).stdout == ""


def test_a_file_that_is_not_there_is_one_line(nri) -> None:
    done = nri("conformance", "merge", "/nowhere.jsonl")
    assert done.returncode != 0
    assert "/nowhere.jsonl" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_kind_that_is_not_known_is_wrong_usage(nri) -> None:
    done = nri("conformance", "merg", "x")
    assert done.returncode == 2
    assert "did you mean merge?" in done.stderr


def test_specs_have_a_verb_of_their_own(nri, tmp_path) -> None:
    env = {"env": [{"key": "A", "value": "1"}]}
    good = {"id": "s", "op": "spec", "spec": {}, "adjust": env, "expect": {"spec": {"process": {"env": ["A=1"]}}}}
    bad = {**good, "id": "t", "adjust": {}}
    done = nri("conformance", "spec", write(tmp_path, good, bad, GOOD))
    assert done.returncode == 1
    assert "case t (spec) differs:" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
    done = nri("conformance", "spec", write(tmp_path, GOOD))
    assert done.returncode == 1
    assert "no spec case in there, so nothing was run; 1 of other kinds were skipped" in done.stderr


def hook(stage: str, given: dict[str, object], expect: dict[str, object], name: str = "one") -> dict[str, object]:
    """A case of a hook, as in the file."""
    return {"id": name, "hook": "terwayqos", "stage": stage, "input": given, "expect": expect}


PARSED = hook("rule.parse", {"node_slo": {}}, {"error": False, "updated": True, "enabled": False}, "parsed")
NOT_PARSED = hook("rule.parse", {"node_slo": {}}, {"error": True}, "not-parsed")
HELPER = hook("helper.quantity", {"value": 50, "total_bytes_per_s": 100}, {"error": False, "bytes_per_s": 50}, "half")
WRONG_HELPER = hook("helper.quantity", {"value": 50, "total_bytes_per_s": 100}, {"bytes_per_s": 51}, "not-half")
#: The original asks for an RDT class in updates, too; this package by default at the creation only.
CLASS_OF_AN_UPDATE: dict[str, object] = {
    "id": "class",
    "hook": "protocol",
    "stage": "convert.container_to_nri",
    "input": {"response": {"resctrl": {"closid": "pod1", "schemata": "L3:0=f\n"}}},
    "expect": {"error": False, "nri_adjustment": {"rdt_class": "pod1"}, "nri_update": {"rdt_class": "pod1"}},
}


def test_cases_of_hooks_and_of_helpers_are_counted_apart(nri, tmp_path) -> None:
    done = nri("conformance", "hooks", write(tmp_path, PARSED, PARSED, HELPER))
    assert (done.returncode, done.stdout) == (0, "2 passed, 0 failed (hooks)\n1 passed, 0 failed (helpers)\n")


def test_a_hook_that_comes_out_otherwise_is_shown_as_a_diff(nri, tmp_path) -> None:
    done = nri("conformance", "hooks", write(tmp_path, NOT_PARSED, PARSED, WRONG_HELPER))
    assert done.returncode == 1
    assert "case not-parsed (terwayqos/rule.parse) differs:" in done.stdout
    assert "case not-half (terwayqos/helper.quantity) differs:" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["1 passed, 1 failed (hooks)", "0 passed, 1 failed (helpers)"]


def test_quiet_prints_the_names_of_failing_hooks_only(nri, tmp_path) -> None:
    done = nri("conformance", "hooks", "-q", write(tmp_path, PARSED, NOT_PARSED, WRONG_HELPER))
    assert (done.returncode, done.stdout) == (1, "not-parsed\nnot-half\n"), done.stderr


def test_json_has_hooks_and_helpers_apart_and_the_failures_of_both(nri, tmp_path) -> None:
    done = nri("conformance", "hooks", "-o", "json", write(tmp_path, PARSED, NOT_PARSED, HELPER, WRONG_HELPER))
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["hooks"], found["helpers"]) == ({"passed": 1, "failed": 1}, {"passed": 1, "failed": 1})
    stages = [(one["case"], one["stage"]) for one in found["failures"]]
    assert stages == [("not-parsed", "terwayqos/rule.parse"), ("not-half", "terwayqos/helper.quantity")]
    assert all(one["diff"] for one in found["failures"])


def test_hooks_are_run_as_in_the_original_unless_the_default_of_this_package_is_asked_for(nri, tmp_path) -> None:
    path = write(tmp_path, CLASS_OF_AN_UPDATE)
    done = nri("conformance", "hooks", path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 passed, 0 failed (hooks)")
    done = nri("conformance", "hooks", "--compat", "default", path)
    assert done.returncode == 1
    assert "case class (protocol/convert.container_to_nri) differs:" in done.stdout


def test_files_without_a_case_of_a_hook_are_no_pass(nri, tmp_path) -> None:
    path = write(tmp_path, GOOD)
    done = nri("conformance", "hooks", path)
    assert (done.returncode, done.stdout) == (1, "0 passed, 0 failed (hooks)\n0 passed, 0 failed (helpers)\n")
    assert f"{path}: no case of a hook in there, so nothing was run" in done.stderr


def test_a_line_that_is_no_case_of_a_hook_is_named_with_its_place(nri, tmp_path) -> None:
    path = write(tmp_path, PARSED, {"id": "x", "expect": {}})
    done = nri("conformance", "hooks", path)
    assert done.returncode != 0
    assert f"{path}:2" in done.stderr
    assert "hook and stage are needed, as texts" in done.stderr
