"""`nri conformance` as a group of verbs. tests/conformance runs recorded cases."""

from __future__ import annotations

import json
import sys

from nri.config.json_lines import read_json_lines
from tests.support.placement import DATA
from tests.unit.cli import dry_engine

STAYS = f"""#!{sys.executable}
import signal, time
import nri
class Stays(nri.Plugin):
    def run_pod_sandbox(self, pod):
        pass
    def closed(self):
        time.sleep(100)
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Stays.main()
"""
GOOD = {"id": "good", "op": "stop", "container": {"id": "c"}, "expect": {}}
BAD = {"id": "bad", "op": "stop", "container": {"id": "c"}, "expect": {"error": "no"}}
#: A recorded placement whose outcome differs by default.
ON_PURPOSE = "bl02-metrics"
OTHER = {"id": "1", "op": "spec", "expect": {}}


def write(tmp_path, *cases) -> str:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)


def test_a_run_without_cases_fails(nri, tmp_path) -> None:
    result = nri("conformance", "merge", write(tmp_path, OTHER))
    assert (result.returncode, result.stdout) == (1, "0 passed, 0 failed\n"), result.stderr
    assert "no create or stop or update cases found, so nothing was run; 1 of other kinds were skipped" in result.stderr
    assert nri("conformance", "merge", write(tmp_path)).returncode == 1


def test_json_has_the_numbers_and_the_failures(nri, tmp_path) -> None:
    result = nri("conformance", "merge", "-o", "json", write(tmp_path, GOOD, BAD, OTHER))
    document = json.loads(result.stdout)
    assert result.returncode == 1
    assert (document["passed"], document["failed"], document["skipped"]) == (1, 1, 1)
    assert [(one["case"], one["op"]) for one in document["failures"]] == [("bad", "stop")]
    assert document["failures"][0]["diff"]


def test_quiet_prints_only_names_of_failed_cases(nri, tmp_path) -> None:
    path = write(tmp_path, GOOD, BAD)
    for words in (("conformance", "merge", "-q"), ("-q", "conformance", "merge"), ("conformance", "-q", "merge")):
        result = nri(*words, path)
        assert (result.returncode, result.stdout) == (1, "bad\n"), result.stderr
    assert nri("conformance", "merge", "-q", write(tmp_path, GOOD)).stdout == ""


def test_a_missing_file_is_an_error_of_one_line(nri) -> None:
    result = nri("conformance", "merge", "/nowhere.jsonl")
    assert result.returncode != 0
    assert "/nowhere.jsonl" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_kind_is_an_error(nri) -> None:
    result = nri("conformance", "merg", "x")
    assert result.returncode == 2
    assert "did you mean nri conformance merge?" in result.stderr


def test_specs_have_a_separate_verb(nri, tmp_path) -> None:
    env = {"env": [{"key": "A", "value": "1"}]}
    good = {"id": "s", "op": "spec", "spec": {}, "adjust": env, "expect": {"spec": {"process": {"env": ["A=1"]}}}}
    bad = {**good, "id": "t", "adjust": {}}
    result = nri("conformance", "spec", write(tmp_path, good, bad, GOOD))
    assert result.returncode == 1
    assert "case t (spec) differs:" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 passed, 1 failed"
    result = nri("conformance", "spec", write(tmp_path, GOOD))
    assert result.returncode == 1
    assert "no spec cases found, so nothing was run; 1 of other kinds were skipped" in result.stderr


def placement(tmp_path, *changed: int) -> str:
    """A file of two placements; those of the given numbers are recorded otherwise."""
    pins = {"cpus": "4-7", "mems": "1", "cpu_shares": 2}
    step = {"op": "create", "pod": "p", "namespace": "default", "qos": "BestEffort", "containers": [{"name": "c"}]}
    cases = [
        {
            "id": f"case {number}",
            "policy": "topology-aware",
            "topology": "guest",
            "config": {"reservedResources": {"cpu": "1"}},
            "node_memory_capacity_bytes": 1 << 30,
            "steps": [{**step, "expect": {"changed": {} if number in changed else {"c": pins}}}],
        }
        for number in range(2)
    ]
    guest = {"kind": "tree", "packages": 2, "numa_per_die": 2, "cores_per_numa": 2, "threads": 2, "mem_kib_per_node": 9}
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"topologies": {"guest": guest}, "placement_cases": cases}))
    return str(path)


def test_placements_have_a_separate_verb(nri, tmp_path) -> None:
    result = nri("conformance", "placement", placement(tmp_path))
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "2 passed, 0 failed, 0 differ on purpose"), (
        result.stderr
    )
    result = nri("conformance", "placement", "--compat", "reference", placement(tmp_path, 1))
    assert result.returncode == 1
    assert "case case 1 differs:\n  step 0 (create) changed" in result.stdout
    result = nri("conformance", "placement", "-o", "json", placement(tmp_path, 0))
    document = json.loads(result.stdout)
    assert (document["passed"], document["failed"], document["on_purpose"]) == (1, 1, [])
    result = nri("conformance", "placement", "-q", placement(tmp_path, 1))
    assert (result.returncode, result.stdout) == (1, "case 1\n"), result.stderr
    (tmp_path / "empty.jsonl").write_text("")
    assert "nothing was run" in nri("conformance", "placement", str(tmp_path / "empty.jsonl")).stderr


def test_placements_with_a_named_deviation_are_counted_and_pass(nri, tmp_path) -> None:
    full = next(read_json_lines(DATA / "placement.json.xz", lambda _: ""))
    cases = [case for case in full["placement_cases"] if case["id"] == ON_PURPOSE]
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"topologies": full["topologies"], "placement_cases": cases}))
    result = nri("conformance", "placement", str(path))
    counted = "memory_follows_cpus: 1\n0 passed, 0 failed, 1 differ on purpose\n"
    assert (result.returncode, result.stdout) == (0, counted), result.stderr
    document = json.loads(nri("conformance", "placement", "-o", "json", str(path)).stdout)
    assert document["on_purpose"] == [{"case": ON_PURPOSE, "choices": ["memory_follows_cpus"]}]


def test_a_plugin_is_tested_and_compared_with_an_earlier_report(nri, tmp_path):
    plugin = tmp_path / "good.py"
    plugin.write_text("import nri\nclass Good(nri.Plugin):\n    def run_pod_sandbox(self, pod):\n        pass\n")
    words = ("conformance", "plugin", "--html", str(tmp_path / "page.html"), "--timeout", "9s")
    comparison = nri(*words, "-o", "json", str(plugin))
    assert comparison.returncode == 0, comparison.stderr
    assert "50-good" in (tmp_path / "page.html").read_text()
    before = json.loads(comparison.stdout)
    before["sections"][0]["rows"][0]["outcome"] = "wrong"
    (tmp_path / "before.json").write_text(json.dumps(before))
    result = nri(*words, "--expect", str(tmp_path / "before.json"), str(plugin))
    assert result.returncode == 5 and "Connecting: registers and is synchronized: before wrong; now ok" in result.stderr
    assert nri("conformance", "plugin", "/nowhere").returncode == 2
    missing_program = nri("conformance", "plugin", "--html", "/nowhere/page.html", "--timeout", "9s", str(plugin))
    assert missing_program.returncode == 2 and "--html /nowhere/page.html" in missing_program.stderr
    assert nri("conformance", "plugin", "/bin/true").returncode == 1


def test_a_program_that_never_registers_is_an_error_with_its_arguments(nri):
    result = nri("conformance", "plugin", "/bin/true", "{socket}")
    assert result.returncode == 1 and result.stderr.startswith("error: /bin/true {socket}: cannot test the plugin: ")


def test_a_runtime_without_a_plugin_socket_is_an_error(nri, folder):
    with dry_engine.engine(folder):
        words = ("conformance", "runtime", "--cri-socket", f"{folder}/cri.sock", "--socket-path", f"{folder}/no.sock")
        for more in ((), ("-vv",)):
            result = nri(*words, *more)
            assert result.returncode == 3 and "no.sock" in result.stderr


def test_a_faulty_plugin_exits_with_1_and_tables(nri, tmp_path):
    plugin = tmp_path / "10-stays"
    plugin.write_text(STAYS)
    plugin.chmod(0o755)
    result = nri("conformance", "plugin", "-vv", "--timeout", "9s", str(plugin))
    assert result.returncode == 1
    assert "The end\nWHAT" in result.stdout and "SIGTERM" in result.stdout
    assert "the program still runs" in result.stdout
    assert "accepts a state of more than 4 MiB, in parts" in result.stderr
    before = nri("conformance", "plugin", "--expect", str(plugin), str(plugin))
    assert before.returncode == 2 and f"{plugin}: not JSON: " in before.stderr
