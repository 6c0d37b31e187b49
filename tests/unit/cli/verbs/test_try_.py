"""`nri try` as a command."""

import json
import sys

import pytest

POD = """
kind: Pod
metadata: {name: web, namespace: prod}
spec:
  containers:
  - {name: app, env: [{name: LOG, value: info}]}
"""
INJECT = """
import nri

class Inject(nri.Plugin):
    class Config:
        level: str = "debug"

    config: Config

    def create_container(self, pod, container):
        return nri.Adjustment().remove_env("LOG").add_env("LOG", self.config.level)

if __name__ == "__main__":
    Inject.main()
"""


def plugin(body: str) -> str:
    return f"import nri\n\nclass Other(nri.Plugin):\n    def {body}\n"


@pytest.fixture
def place(folder):
    (folder / "pod.yaml").write_text(POD)
    (folder / "inject.py").write_text(INJECT)
    return folder


def other(place, body: str, name: str = "other.py") -> None:
    (place / name).write_text(plugin(body))


def test_changes_are_shown_as_a_diff_per_plugin(nri, place):
    other(place, 'create_container(self, pod, container): return nri.Adjustment().set_cpuset_cpus("0-3")')
    result = nri("try", "inject.py", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "pod prod/web",
        "container app",
        "  10-inject",
        '    - Env LOG "info"',
        '    + Env LOG "debug"',
        "  20-other",
        '    + CPUSetCPUs "0-3"',
    ]


def test_lines_are_coloured_on_request(nri, place):
    result = nri("try", "inject.py", "--pod", "pod.yaml", "--color", "always", cwd=place)
    assert '\x1b[32m+ Env LOG "debug"\x1b[0m' in result.stdout


def test_json_is_one_document(nri, place):
    result = nri("try", "inject.py", "--pod", "pod.yaml", "-o", "json", cwd=place)
    tree = json.loads(result.stdout)
    assert tree["plugins"] == ["10-inject"]
    assert [(step["plugin"], step["before"], step["after"]) for step in tree["pods"][0]["containers"][0]["steps"]] == [
        ("10-inject", "info", "debug")
    ]


def test_a_conflict_is_shown_and_exits_with_4(nri, place):
    other(place, 'create_container(self, pod, container): return nri.Adjustment().add_env("LOG", "x")')
    result = nri("try", "inject.py", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 4
    assert 'refused: plugins "20-other" and "10-inject" both tried to set Env LOG' in result.stdout


def test_a_rejection_exits_with_4_and_the_reason(nri, place):
    other(place, 'create_container(self, pod, container): raise nri.Reject("not today")')
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 4
    assert "not today" in result.stdout


def test_a_failing_plugin_exits_with_1(nri, place):
    other(place, "create_container(self, pod, container): return 1 / 0")
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 1
    assert "division by zero" in result.stdout


def test_a_refused_pod_has_no_containers(nri, place):
    other(place, 'run_pod_sandbox(self, pod): raise nri.Reject("no pods")')
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 4
    assert "refused" in result.stdout
    assert "container app" not in result.stdout


def test_the_index_comes_from_the_command_line_or_the_file_name(nri, place):
    other(place, "run_pod_sandbox(self, pod): pass", "70-late.py")
    result = nri("try", "30=inject.py", "70-late.py", "--pod", "pod.yaml", "-o", "json", cwd=place)
    assert json.loads(result.stdout)["plugins"] == ["30-inject", "70-late"]


def test_a_plugin_gets_its_configuration(nri, place):
    (place / "c.yaml").write_text("level: trace\n")
    result = nri("try", "30=inject.py", "--pod", "pod.yaml", "--config", "30=c.yaml", cwd=place)
    assert '+ Env LOG "trace"' in result.stdout, result.stderr


def test_a_configuration_without_a_plugin_is_an_error(nri, place):
    (place / "c.yaml").write_text("")
    result = nri("try", "inject.py", "--pod", "pod.yaml", "--config", "30=c.yaml", cwd=place)
    assert result.returncode == 2
    assert "no plugin has this index" in result.stderr


def test_the_operators_policy_applies(nri, place):
    (place / "policy.toml").write_text('["10-inject"]\nallow.fields = ["Mounts"]\n')
    result = nri("try", "inject.py", "--pod", "pod.yaml", "--policy", "policy.toml", cwd=place)
    assert result.returncode == 1
    assert "its policy does not allow it to set Env" in result.stdout


def test_a_program_runs_like_an_installed_plugin(nri, place):
    program = place / "40-prog"
    program.write_text(f"#!{sys.executable}\n{INJECT}")
    program.chmod(0o755)
    result = nri("try", "./40-prog", "--pod", "pod.yaml", cwd=place)
    assert (result.returncode, result.stdout.splitlines()[2]) == (0, "  40-prog"), result.stderr


def test_a_program_that_is_not_a_plugin_is_an_error_with_its_last_output(nri, place):
    program = place / "40-prog"
    program.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    program.chmod(0o755)
    result = nri("try", "./40-prog", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 1
    assert "plugin 40-prog does not take part: exit code 3: no such luck" in result.stderr


def test_an_unchanged_pod_is_reported(nri, place):
    other(place, "run_pod_sandbox(self, pod): pass")
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert "nothing changes" in result.stdout


SECOND = POD.replace("web", "second").replace("app", "other")


def test_the_manifest_can_be_standard_input_with_several_pods(nri, place):
    result = nri("try", "inject.py", "--pod", "-", cwd=place, stdin=f"{POD}---\n{SECOND}")
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        "pod prod/web",
        "container app",
        "pod prod/second",
        "container other",
    ], result.stderr


def test_empty_standard_input_is_an_error(nri, place):
    result = nri("try", "inject.py", "--pod", "-", cwd=place)
    assert result.returncode == 2
    assert result.stderr.startswith("error: standard input: contains neither a Pod")


def test_a_plugins_warning_is_shown(nri, place):
    annotated = POD.replace("name: web", "name: web, annotations: {ulimits.noderesource.dev: '[{type: cpu, hard: 1}]'}")
    result = nri("try", "ulimit-adjuster", "--pod", "-", cwd=place, stdin=annotated)
    assert "nothing changes" in result.stdout
    assert "ulimits.noderesource.dev has no effect; write ulimits.noderesource.dev/container.NAME" in result.stderr


def test_a_late_plugin_exits_with_1_after_the_default_timeout(nri, place):
    other(place, "create_container(self, pod, container): import time; time.sleep(20)")
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 1
    assert result.stdout.splitlines()[2:] == [
        "  10-other: no answer to CreateContainer within 2 s; do slow work in a thread"
    ]


def test_a_plugin_that_exits_is_reported_as_gone(nri, place):
    program = place / "20-quits"
    program.write_text(
        f"#!{sys.executable}\nimport os, nri\n\n\nclass Quits(nri.Plugin):\n"
        "    def create_container(self, pod, container):\n        os._exit(3)\n\n\nQuits.main()\n"
    )
    program.chmod(0o755)
    result = nri("try", "./20-quits", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 1
    assert result.stdout.splitlines()[2:] == [
        "  20-quits: no answer to CreateContainer, the plugin disconnected: closed; see its own output"
    ]


def test_the_timeout_can_be_set(nri, place):
    other(place, "create_container(self, pod, container): import time; time.sleep(20)")
    result = nri("try", "other.py", "--pod", "pod.yaml", "--timeout", "300ms", cwd=place)
    assert result.returncode == 1
    assert "no answer to CreateContainer within 0.3 s" in result.stdout


def test_unsolicited_updates_are_shown_separately(nri, place):
    other(
        place,
        "post_start_container(self, pod, container):\n"
        "        self.runtime.update(nri.Update(container.id).set_cpu_shares(512))\n"
        "        self.runtime.evict(container.id, 'too old')",
    )
    result = nri("try", "other.py", "--pod", "pod.yaml", cwd=place)
    assert result.stdout.splitlines()[2:] == [
        "  10-other by itself",
        "    - CPUShares 2",
        "    + CPUShares 512",
        "  evicts container app: too old",
    ], result.stderr


def test_a_shadow_plugins_answer_is_shown_and_not_applied(nri, place):
    other(place, 'create_container(self, pod, container): return nri.Adjustment().add_env("LOG", "x")')
    (place / "policy.toml").write_text('["20-other"]\nshadow = true\n')
    result = nri("try", "inject.py", "other.py", "--pod", "pod.yaml", "--policy", "policy.toml", cwd=place)
    assert result.returncode == 0
    assert result.stdout.splitlines()[5:] == [
        "  20-other, a shadow: its answers have no effect",
        '    - Env LOG "debug"',
        '    + Env LOG "x"',
        "    in conflict with 10-inject: Env LOG",
    ]


def test_an_invalid_configuration_is_an_error_with_its_file(nri, place):
    (place / "c.yaml").write_text("levl: trace\n")
    result = nri("try", "30=inject.py", "--pod", "pod.yaml", "--config", "30=c.yaml", cwd=place)
    assert result.returncode == 2
    assert result.stderr == 'error: c.yaml:1: levl: unknown key (did you mean "level"?)\n'


def test_a_missing_policy_is_an_error(nri, place):
    result = nri("try", "inject.py", "--pod", "pod.yaml", "--policy", "none.toml", cwd=place)
    assert result.returncode == 2
    assert "none.toml: cannot read it" in result.stderr


def test_two_plugins_with_one_index_run_with_a_warning(nri, place):
    other(place, "run_pod_sandbox(self, pod): pass")
    result = nri("try", "10=inject.py", "10=other.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 0
    assert "note: inject.py and other.py share index 10" in result.stderr


def test_quiet_prints_the_names_of_changed_containers(nri, place):
    result = nri("try", "inject.py", "--pod", "pod.yaml", "-q", cwd=place)
    assert (result.returncode, result.stdout) == (0, "app\n")
    other(place, "run_pod_sandbox(self, pod): pass")
    assert nri("try", "other.py", "--pod", "pod.yaml", "-q", cwd=place).stdout == ""


def test_a_missing_manifest_is_an_error_of_one_line(nri, place):
    result = nri("try", "inject.py", "--pod", "none.yaml", cwd=place)
    assert result.returncode == 2
    assert result.stderr.splitlines() == ["error: none.yaml: cannot read it: No such file or directory"]


def test_unset_limits_and_zeros_are_distinguished(nri, place):
    other(place, "create_container(self, pod, container): return nri.Adjustment().set_memory_limit(4096)")
    other(place, "create_container(self, pod, container): return nri.Adjustment().set_oom_score_adj(0)", "20-oom.py")
    result = nri("try", "other.py", "20-oom.py", "--pod", "pod.yaml", cwd=place)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[lines.index("10-other") + 1 :][:2] == ["- MemLimit unset", "+ MemLimit 4096"]
    assert lines[-1] == "+ OomScoreAdj 0"


def test_unknown_keys_of_the_manifest_are_reported(nri, place):
    (place / "pod.yaml").write_text(POD.replace("{name: app,", "{name: app, odd: [],"))
    result = nri("try", "inject.py", "--pod", "pod.yaml", cwd=place)
    assert result.returncode == 0
    assert "note: pod.yaml:6: spec.containers[0].odd is ignored: unknown key" in result.stderr


def test_an_index_for_a_plugin_with_fixed_indices_is_refused(nri, place):
    for target in ("98-differ", "98=differ"):
        result = nri("try", target, "--pod", "pod.yaml", cwd=place)
        assert result.returncode == 2
        assert "the plugin differ chooses its indices itself, so the index 98 has no effect" in result.stderr
