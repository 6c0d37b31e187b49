"""`nri agent`: what its verbs print, and with which code they end. The agent itself is run by tests/unit/agent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nri.cli.settings import Settings
from nri.cli.verbs.agent.agent import AGENT_OPTIONS
from nri.service.http import json_answer, text_answer
from tests.unit.cli.conftest import command, complete, environment
from tests.unit.cli.verbs.agent.conftest import document

KNOWN = {
    "key": "u1", "namespace": "shop", "name": "web", "ended": False,
    "values": [
        {"container": "app", "field": "cpuset.cpus", "value": "0-1", "hook": "CPUSetAllocator",
         "reason": "all share pools", "stage": "PreCreateContainer", "transport": "nri", "at": 1.0},
    ],
    "writes": [
        {"target": "kubepods/pod1", "name": "cpu.bvt", "wanted": "2", "outcome": "unsupported",
         "reason": "only other kernels have it", "transport": "nri", "container": "", "at": 1.0},
    ],
    "errors": [
        {"hook": "BatchResource", "reason": "no JSON", "stage": "PreRunPodSandbox", "transport": "nri",
         "container": "", "at": 1.0},
    ],
    "rules": {"NodeSLO": "apiserver node-1", "NodeResourceTopology": "", "Node": ""},
}  # fmt: skip


@pytest.mark.parametrize("words", [["check"], ["explain", "shop/web"], ["capabilities"], ["run"]])
def test_without_its_packages_each_verb_names_the_install_command(tmp_path: Path, words: list[str]) -> None:
    missing = "raise ModuleNotFoundError(\"No module named 'prometheus_client'\", name='prometheus_client')\n"
    (tmp_path / "prometheus_client.py").write_text(missing)
    variables = environment(PYTHONPATH=str(tmp_path))
    result = subprocess.run(
        command("agent", *words), capture_output=True, text=True, timeout=60, check=False, env=variables
    )
    assert result.returncode == 1
    assert result.stderr == (
        "error: nri agent requires prometheus_client, which is not installed. "
        "Install the extra: pip install '.[agent]', in a checkout of nri\n"
    )


# -- explain, without an agent -----------------------------------------------------------------------------------------


def test_explain_of_a_manifest_names_rule_annotation_and_hook_of_each_value(nri, rules: Path, pod: Path) -> None:
    result = nri("agent", "explain", "--rules", str(rules), "--pod", str(pod), "-o", "json")
    assert result.returncode == 0, result.stderr
    (results,) = document(result.stdout)
    assert (results["namespace"], results["name"]) == ("shop", "web")
    (cpus,) = [row for row in results["values"] if row["field"] == "cpuset.cpus"]
    assert (cpus["container"], cpus["value"], cpus["hook"]) == ("app", "0-1", "CPUSetAllocator")
    assert cpus["reason"] == "all share pools, for LS pods"
    assert (cpus["rules"], cpus["reads"]) == (["NodeResourceTopology"], ["koordinator.sh/qosClass"])
    sources = {"NodeSLO": f"{rules}/slo.yaml", "ConfigMap": "", "NodeResourceTopology": f"{rules}/slo.yaml", "Node": ""}
    assert results["rules"] == sources
    (identity,) = [row for row in results["values"] if row["field"] == "cpu.bvt"]
    assert (identity["container"], identity["value"], identity["rules"]) == ("", "2", ["NodeSLO"])


def test_explain_reports_values_without_effect_because_their_hook_is_off(nri, rules: Path, pod: Path) -> None:
    words = ("agent", "explain", "--rules", str(rules), "--pod", str(pod))
    off = nri(*words).stdout
    assert (
        "node.koordinator.sh/resctrl: without effect, because Resctrl is off (gates.Resctrl = true switches it on)"
        in off
    )
    assert "without effect" not in nri(*words, "--set", "gates.Resctrl=true").stdout


def test_explain_reports_unsupported_settings_and_replacements(nri, rules, pod, tmp_path: Path) -> None:
    result = nri("agent", "explain", "--rules", str(rules), "--pod", str(pod), "--root", str(tmp_path))
    text = " ".join(result.stdout.split())
    assert "cpu.bvt: not supported on this machine: the controller cpu is not mounted" in text
    assert "instead: cpu.idle or cpu.shares" in text


def test_sentences_of_explain_fit_120_columns_unless_w_asks_for_whole_lines(nri, rules: Path, pod: Path) -> None:
    words = ("agent", "explain", "--rules", str(rules), "--pod", str(pod))
    (line,) = [line for line in nri(*words, "-w").stdout.splitlines() if line.startswith("Rules: ")]
    fitted = nri(*words).stdout
    assert len(line) > 120 and line not in fitted and line in " ".join(fitted.split())


def test_explain_of_a_bad_annotation_shows_the_error_and_the_other_hooks(nri, rules: Path, pod: Path) -> None:
    text = pod.read_text().replace("node.koordinator.sh/resctrl: '{}'", "koordinator.sh/cpuQOS: '{'")
    pod.write_text(text)
    result = nri("agent", "explain", "--rules", str(rules), "--pod", str(pod))
    assert result.returncode == 0
    assert "all share pools, for LS pods" in result.stdout
    errors = result.stdout.partition("Errors:")[2]
    assert "GroupIdentity" in errors
    assert "koordinator.sh/cpuQOS" in errors


def test_explain_of_invalid_files_exits_with_2_and_their_lines(nri, rules: Path, pod: Path) -> None:
    (rules / "slo.yaml").write_text("kind: NodeSLO\nspec:\n  resourceQOSStrategy: 5\n")
    result = nri("agent", "explain", "--rules", str(rules), "--pod", str(pod))
    assert result.returncode == 2
    assert f"error: {rules}/slo.yaml:3: " in result.stderr
    result = nri("agent", "explain", "--pod", str(rules / "slo.yaml"))
    assert result.returncode == 2
    assert "no pod found" in result.stderr


def test_missing_rules_are_an_error_with_the_flag(nri, pod: Path, tmp_path: Path) -> None:
    result = nri("agent", "explain", "--rules", f"{tmp_path}/typo", "--pod", str(pod))
    assert (result.returncode, result.stderr) == (2, f"error: --rules: rules.path: {tmp_path}/typo not found\n")
    assert nri("agent", "check", "--rules", f"{tmp_path}/typo").returncode == 1


# -- explain, by an agent ----------------------------------------------------------------------------------------------


def test_explain_asks_the_agent_and_shows_values_writes_and_errors(nri, agent_at) -> None:
    texts: list[str] = []

    def explain(argument):
        texts.append(argument["pod"])
        return json_answer(KNOWN)

    path = agent_at({"/explain": explain})
    result = nri("agent", "explain", "shop/web", "--agent-socket", path)
    assert (result.returncode, texts) == (0, ["shop/web"]), result.stderr
    for word in (
        "pod shop/web",
        "all share pools",
        "NodeResourceTopology",
        "nri",
        "1 setting that this kernel does not have: --all shows them",
        "no JSON",
        "NodeSLO: apiserver node-1",
    ):
        assert word in result.stdout, word
    assert "unsupported" not in result.stdout
    assert "unsupported" in nri("agent", "explain", "shop/web", "--all", "--agent-socket", path).stdout
    assert result.stderr == "for the changes of all plugins in one of its containers: nri why CONTAINER\n"
    explanation = document(nri("agent", "explain", "shop/web", "--agent-socket", path, "-o", "json").stdout)
    assert explanation["values"][0]["rules"] == ["NodeResourceTopology"]
    assert "scheduling.koordinator.sh/resource-status" in explanation["values"][0]["reads"]
    assert explanation["writes"] == KNOWN["writes"]


def test_explain_accepts_a_pod_or_a_file(nri, agent_at, pod: Path) -> None:
    both = nri("agent", "explain", "shop/web", "--pod", str(pod))
    assert (both.returncode, "give either POD or --pod FILE" in both.stderr) == (2, True)
    rules_alone = nri("agent", "explain", "--rules", "slo.yaml")
    assert (rules_alone.returncode, "--rules requires --pod FILE" in rules_alone.stderr) == (2, True)
    result = nri("agent", "explain", "--agent-socket", agent_at({"/explain": lambda _: json_answer({"pods": []})}))
    assert result.stderr == "the agent does not know any pod yet\n"


def test_without_a_pod_explain_lists_the_agents_pods(nri, agent_at) -> None:
    rows = [
        {"key": "u1", "namespace": "shop", "name": "web", "ended": False},
        {"key": "kube-qos/Burstable", "namespace": "", "name": "Burstable", "ended": False},
    ]
    path = agent_at({"/explain": lambda _: json_answer({"pods": rows})})
    assert nri("agent", "explain", "-q", "--agent-socket", path).stdout == "shop/web\nkube-qos/Burstable\n"
    assert document(nri("agent", "explain", "-o", "json", "--agent-socket", path).stdout) == rows


def test_an_unknown_pod_exits_with_1(nri, agent_at) -> None:
    path = agent_at({"/explain": lambda _: json_answer({"error": "pod 'x' is unknown"}, 404)})
    result = nri("agent", "explain", "x", env={"NRI_AGENT_SOCKET": path})
    assert result.returncode == 1
    expected = "error: pod 'x' is unknown. try: nri agent explain\n"
    assert result.stderr == expected


def test_without_an_agent_explain_exits_with_3(nri, tmp_path: Path) -> None:
    result = nri("agent", "explain", "x", "--agent-socket", str(tmp_path / "none.sock"))
    assert result.returncode == 3
    assert result.stderr.startswith(f"error: cannot connect to {tmp_path}/none.sock: ")
    assert "try: nri agent run" in result.stderr


def test_an_error_of_the_agent_is_printed(nri, agent_at) -> None:
    path = agent_at({"/explain": lambda _: text_answer("ValueError\n", 500)})
    result = nri("agent", "explain", "x", "--agent-socket", path)
    assert (result.returncode, result.stderr) == (1, f"error: {path} answered 500: ValueError\n")


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_of_valid_files_lists_them(nri, rules: Path, pod: Path, tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('modes = ["nri"]\n')
    result = nri("agent", "check", str(config), "--rules", str(rules), "--pods", str(pod))
    assert (result.returncode, result.stdout) == (0, "")
    note, message = result.stderr.splitlines()
    assert note.startswith(
        f"note: {pod}:7: shop/web: node.koordinator.sh/resctrl: without effect, because Resctrl is off"
    )
    assert message == "no mistakes found, but see the notes: settings, rules (NodeSLO, NodeResourceTopology), 1 pod"


def test_check_accepts_a_file_with_and_without_the_option(nri, tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text('modes = ["nir"]\n')
    second.write_text('[nri]\nindx = "10"\n')
    result = nri("agent", "check", str(second), "--config", str(first), "-o", "json")
    assert result.returncode == 2
    assert {row["where"] for row in document(result.stdout)} == {f"{first}:1", f"{second}:2"}


def test_check_reports_all_mistakes_of_all_files_and_exits_with_2(nri, rules: Path, pod: Path, tmp_path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text('modes = ["nir"]\n[nri]\nindx = "10"\n')
    (rules / "slo.yaml").write_text(f"{'kind: NodeSLO'}\nspec:\n  resourceQOSStrategy: 5\n")
    pod.write_text(pod.read_text().replace("node.koordinator.sh/resctrl: '{}'", "koordinator.sh/cpuQOS: '{'"))
    result = nri("agent", "check", str(config), "--rules", str(rules), "--pods", str(pod), "-o", "json")
    assert result.returncode == 2
    explanation = document(result.stdout)
    assert [(row["where"], row["what"]) for row in explanation[:3]] == [
        (f"{config}:1", "modes[0]"),
        (f"{config}:3", "nri.indx"),
        (f"{rules}/slo.yaml:3", "NodeSLO"),
    ]
    assert (explanation[0]["next"], explanation[1]["next"]) == ('did you mean "nri"?', 'did you mean "index"?')


def test_check_of_invalid_rules_or_annotations_exits_with_1(nri, rules: Path, pod: Path) -> None:
    pod.write_text(pod.read_text().replace("node.koordinator.sh/resctrl: '{}'", "koordinator.sh/cpuQOS: '{'"))
    result = nri("agent", "check", "--rules", str(rules), "--pods", str(pod))
    assert result.returncode == 1
    assert "GroupIdentity: " in result.stdout
    assert "shop/web" in result.stdout


def test_rules_of_another_node_are_reported(nri, rules: Path, pod: Path) -> None:
    text = (rules / "slo.yaml").read_text()
    (rules / "slo.yaml").write_text(text.replace("kind: NodeSLO\n", "kind: NodeSLO\nmetadata: {name: far}\n"))
    words = ("--rules", str(rules), "--set", "rules.node_name=near")
    result = nri("agent", "explain", "--pod", str(pod), *words)
    note = f"note: {rules}/slo.yaml: NodeSLO belongs to node far, but this node is near (rules.node_name)\n"
    assert result.stderr == note
    assert "cpu.bvt" not in result.stdout
    checked = nri("agent", "check", *words)
    assert checked.stderr == f"{note}no mistakes found, but see the notes: settings, rules (NodeResourceTopology)\n"
    assert nri("agent", "check", "--rules", str(rules), "--set", "rules.node_name=far").stderr.startswith("no mistakes")


def test_check_of_two_profiles_reports_settings_with_two_writers(nri, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"agent": {"informerType": "nri", "enabledFeatures": ["quotaTurbo"]}, "quotaTurbo": {}}')
    both = ("agent", "check", "--profile", "koordinator", "--profile", "rubik", str(config))
    result = nri(*both, "-o", "json")
    assert (result.returncode, [row["what"] for row in document(result.stdout)]) == (2, ["gates"])
    actual = tmp_path / "agent.toml"
    actual.write_text(
        'profile = "koordinator"\n[gates]\nBatchResource = false\nCPUBurst = false\nCPUSetAllocator = false\n'
    )
    good = nri(*both, str(actual))
    assert good.returncode == 0, good.stdout
    assert "rubik: settings, rules (RubikConfiguration)" in good.stderr


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_capabilities_show_required_features_with_reason_and_substitute(nri, tmp_path: Path) -> None:
    result = nri("agent", "capabilities", "--root", str(tmp_path), "-o", "json")
    rows = {row["what"]: row for row in document(result.stdout)}
    assert (rows["cpu.bvt"]["supported"], rows["cpu.bvt"]["instead"]) == (False, "cpu.idle or cpu.shares")
    assert "cpu.bvt" in nri("agent", "capabilities", "--root", str(tmp_path)).stdout
    assert "pids.limit" not in rows
    assert "pids.limit" in nri("agent", "capabilities", "--root", str(tmp_path), "--all").stdout


def test_keys_are_listed_with_default_and_description(nri) -> None:
    result = nri("agent", "keys", "nri.", "-o", "json")
    rows = {row["key"]: row for row in document(result.stdout)}
    assert rows["nri.index"] == {
        "key": "nri.index",
        "kind": "string",
        "default": '"00"',
        "meaning": "two digits that order the plugins. Like koordlet's plugin, the agent has 00 and runs first.",
        "needed": False,
    }
    assert nri("agent", "keys", "nothing").returncode == 2


def test_mistakes_in_settings_exit_with_2_before_the_start(nri) -> None:
    result = nri("agent", "run", "--mode", "nri,standlone", "--profile", "koord", "--config", "/dev/null")
    assert result.returncode == 2
    assert '--mode: modes[1]: expected one of nri, proxy, hooks, standalone, not "standlone"' in result.stderr
    assert '--profile: profile: expected one of koordinator, rubik, not "koord"' in result.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [("nri agent ", "explain"), ("nri agent run --mo", "--mode"), ("nri agent explain --", "--agent-socket")],
)
def test_verbs_and_options_are_completed(words: str, offered: str) -> None:
    assert offered in complete(words, len(words.split(" ")) - 1)


# -- its settings -----------------------------------------------------------------------------------------------------


def test_modes_are_separated_by_commas_and_a_path_selects_files_as_source() -> None:
    options = {"files": ("/dev/null",), "assignments": (), "set_mode": "nri, standalone,", "set_rules": "/r"}
    settings = AGENT_OPTIONS.load(Settings(), options).settings
    assert settings.modes == ("nri", "standalone")
    assert (settings.rules.source, str(settings.rules.path)) == ("files", "/r")
