"""The check of an agent's files: all mistakes together, and an exit code for the kind of file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.agent.checking import CheckOutcome, Finding, check
from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.agent.settings.tables import RuleSettings
from nri.config.complaint import combined_error
from nri.config.settings import LoadedSettings
from nri.errors import ConfigError

WRONG_SLO = """\
kind: NodeSLO
spec:
  resourceUsedThresholdWithBE: {enable: true, cpuSuppressThresholdPercent: 165}
  cpuBurstStrategy: {policy: atuo}
  resourceQOSStrategy:
    lsClass:
      memoryQOS: {enable: true, wmarkRatio: x}
      resctrlQOS: {enable: true, mbaPercent: x}
    beClass:
      blkioQOS:
        enable: true
        blocks:
          - {name: /dev/sda, ioCfg: {ioWeightPercent: 100}}
          - {name: /dev/sdb, ioCfg: {readBPS: -1}}
"""
POLICIES = "none, cpuBurstOnly, cfsQuotaBurstOnly, auto"
BAD_POD = """\
kind: Pod
metadata:
  name: web
  labels: {koordinator.sh/qosClass: LS}
  annotations: {scheduling.koordinator.sh/resource-status: '{'}
spec: {containers: [{name: app}]}
"""


def code(outcome: CheckOutcome) -> int:
    """The exit code that `nri agent check` ends with."""
    return 2 if outcome.wrong_settings else 1 if outcome.findings else 0


@pytest.fixture
def settings(tmp_path: Path) -> AgentSettings:
    (tmp_path / "rules").mkdir()
    return AgentSettings(root=tmp_path, rules=RuleSettings(path=tmp_path / "rules"))


def loaded(settings: AgentSettings) -> LoadedSettings[AgentSettings]:
    """The settings, with a path of rules from a flag."""
    return LoadedSettings(settings, {"rules.path": "--rules"}, ())


def test_without_rules_and_pods_only_the_settings_are_checked(settings: AgentSettings) -> None:
    elsewhere = replace(settings, rules=RuleSettings(source="apiserver"))
    assert check([loaded(elsewhere)], settings, rules=False, pods="") == ([], "settings", [], 0)


def test_mistakes_in_settings_are_findings_with_exit_code_2(settings: AgentSettings) -> None:
    (settings.rules.path / "a.yaml").write_text("kind: NodeSLO\nspec: 5\n")
    errors = combined_error([ConfigError("f:1", "a", "wrong", "b"), ConfigError("f:2", "c", "worse")])
    outcome = check(errors, settings, rules=True, pods="")
    assert outcome.findings[:2] == [Finding("f:1", "a", "wrong", "b"), Finding("f:2", "c", "worse")]
    assert outcome.findings[2].where.startswith(f"{settings.rules.path}/a.yaml")
    assert code(outcome) == 2


def test_a_kubernetes_object_instead_of_settings_is_one_finding_with_advice(
    settings: AgentSettings,
) -> None:
    rows = [("f:1", "apiVersion"), ("f:2", "kind"), ("f:3", "spec"), ("g:1", "spec")]
    errors = combined_error([ConfigError(where, key, "unknown key") for where, key in rows])
    first, second = check(errors, settings, rules=False, pods="").findings
    assert (first.where, first.what, first.next) == (
        "f:2", "kind", "use --rules for a file of rules, --pods for a file of pods",
    )  # fmt: skip
    assert second.where == "g:1"


def test_an_unreadable_annotation_is_a_finding_with_pod_container_and_hook(
    settings: AgentSettings, tmp_path: Path
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(BAD_POD)
    outcome = check([loaded(settings)], settings, rules=False, pods=str(path))
    assert code(outcome) == 1
    assert {(finding.where, finding.what) for finding in outcome.findings} == {
        (f"{path}:5", "web"),
        (f"{path}:5", "web/app"),
    }
    assert all(finding.problem.startswith("CPUSetAllocator: ") for finding in outcome.findings)


def test_an_invalid_nodeslo_of_strategies_is_a_finding(settings: AgentSettings) -> None:
    path = settings.rules.path / "slo.yaml"
    path.write_text(WRONG_SLO)
    outcome = check([loaded(settings)], settings, rules=True, pods="")
    assert code(outcome) == 1
    strategy = "resourceQOSStrategy"
    assert [(finding.where, finding.problem) for finding in outcome.findings] == [
        (f"{path}:3", "resourceUsedThresholdWithBE.cpuSuppressThresholdPercent: 165 is not between 0 and 100"),
        (f"{path}:4", f"cpuBurstStrategy.policy: unknown policy 'atuo'; choose from {POLICIES}"),
        (f"{path}:7", f'{strategy}.lsClass.memoryQOS.wmarkRatio: "x" is not a whole number'),
        (f"{path}:8", f'{strategy}.lsClass.resctrlQOS.mbaPercent: "x" is not a whole number'),
        (f"{path}:14", f"{strategy}.beClass.blkioQOS.blocks[1].ioCfg.readBPS: -1 is below 0"),
    ]
    path.write_text("kind: NodeSLO\nspec:\n  cpuBurstStrategy:\n    policy: auto\n    cfsQuotaBurstPercent: 99\n")
    (finding,) = check([loaded(settings)], settings, rules=True, pods="").findings
    assert finding.where == f"{path}:5"
    assert finding.problem == "cpuBurstStrategy.cfsQuotaBurstPercent: 99 is not between 100 and 10000"


def test_annotations_of_enabled_strategies_are_checked(settings: AgentSettings, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(BAD_POD.replace("scheduling.koordinator.sh/resource-status", "koordinator.sh/cpuBurst"))
    (finding,) = check([loaded(settings)], settings, rules=False, pods=str(path)).findings
    assert (finding.what, finding.problem[:46]) == ("web", "CPUBurst: annotation koordinator.sh/cpuBurst: ")


def test_missing_rules_are_a_finding(settings: AgentSettings) -> None:
    settings.rules.path.rmdir()
    outcome = check([loaded(settings)], settings, rules=True, pods="")
    assert outcome.findings == [Finding("--rules", "rules.path", f"{settings.rules.path} not found")]
    assert code(outcome) == 1
    assert (
        check([LoadedSettings(settings, {}, ())], settings, rules=True, pods="").findings == []
    )  # a default may be absent


def test_an_unreadable_file_of_pods_is_a_finding(settings: AgentSettings, tmp_path: Path) -> None:
    outcome = check([loaded(settings)], settings, rules=True, pods=str(tmp_path / "none.yaml"))
    assert outcome.findings == [Finding(str(tmp_path / "none.yaml"), "", "file not found")]
    assert (outcome.looked_at, code(outcome)) == (f"settings, rules (none in {settings.rules.path})", 1)


def test_a_file_without_a_pod_is_a_finding(settings: AgentSettings, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("kind: NodeSLO\nspec: {}\n")
    outcome = check([loaded(settings)], settings, rules=False, pods=str(tmp_path / "rules.yaml"))
    (finding,) = outcome.findings
    assert (finding.where, finding.problem, code(outcome)) == (str(tmp_path / "rules.yaml"), "no pod found", 1)


def test_an_annotation_without_effect_is_a_note(settings: AgentSettings, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: web, labels: {koordinator.sh/qosclass: LS}}\n")
    outcome = check([loaded(settings)], settings, rules=False, pods=str(tmp_path / "pod.yaml"))
    (note,) = outcome.notes
    assert note.startswith(f"{tmp_path}/pod.yaml:2: web: koordinator.sh/qosclass: nothing reads it; did you mean ")
    assert code(outcome) == 0


def test_notes_on_pods_have_the_line_of_the_key(settings: AgentSettings, tmp_path: Path) -> None:
    annotations = """\
    node.koordinator.sh/extended-resource-spec: '{"containers": {}}'
    koordinator.sh/cpuburst: '{}'
"""
    pod = f"""\
kind: Pod
metadata:
  name: web
  labels:
    koordinator.sh/qosClass: BE
  annotations:
{annotations}spec:
  containers:
    - {{name: app, resources: {{requests: {{kubernetes.io/batch-cpuu: 1}}}}}}
"""
    (tmp_path / "pods").mkdir()
    path = tmp_path / "pods" / "b.yaml"
    path.write_text(f"kind: Pod\nmetadata: {{name: fine}}\n---\n{pod}")
    by_mode = {}
    for compat in ("default", "reference"):
        source = loaded(replace(settings, compat=compat))
        notes = check([source], settings, rules=False, pods=str(path.parent)).notes
        by_mode[compat] = {note.partition(": web: ")[0]: note.partition(": web: ")[2] for note in notes}
    places = [f"{path}:{line}" for line in (11, 10, 13)]
    assert sorted(by_mode["default"]) == sorted(places)
    assert by_mode["default"][places[1]].startswith(
        "annotation node.koordinator.sh/extended-resource-spec: no container is"
    )
    nothing = by_mode["reference"][places[1]]
    assert nothing.startswith("memory.limit: BatchResource sets it to 0, so no process can run: annotation node.k")


def test_rules_without_effect_are_notes_with_file_and_line(settings: AgentSettings) -> None:
    path = settings.rules.path / "slo.yaml"
    path.write_text(
        "kind: NodeSLO\nspec:\n  resourceQOSStrategy:\n    lsClass:\n      cpuQOS: {enabel: true}\n    beClass:\n"
        "      memoryQOS: {enable: true}\n---\nkind: NodeResourceTopologie\n---\nkind: Node\nmetadata: {name: far}\n"
    )
    outcome = check([loaded(settings)], settings, rules=True, pods="")
    assert (code(outcome), outcome.findings) == (0, [])
    assert [note.split(": ", 1)[0] for note in outcome.notes] == [
        f"{path}:{n}" if n else f"{path}" for n in (9, 0, 5, 7)
    ]
    odd, foreign, unread, gate = outcome.notes
    assert odd.endswith("NodeResourceTopologie: nothing reads it; did you mean NodeResourceTopology?")
    assert "Node belongs to node far, but this node is " in foreign
    assert unread.endswith("cpuQOS.enabel: nothing reads it; did you mean enable?")
    assert gate.endswith("because CgroupReconcile is off (gates.CgroupReconcile = true switches it on)")


def test_every_profile_is_checked_with_its_pods_and_for_conflicts(settings: AgentSettings, tmp_path: Path) -> None:
    rubik = replace(settings, profile="rubik", gates={"quotaTurbo": True})
    (tmp_path / "pod.yaml").write_text(BAD_POD)
    outcome = check([loaded(settings), loaded(rubik)], settings, rules=False, pods=str(tmp_path / "pod.yaml"))
    conflict, *other_entries = outcome.findings
    assert "BatchResource and quotaTurbo both set cpu.cfs_quota" in conflict.problem
    assert "gates.BatchResource = false" in conflict.problem
    assert {other.what for other in other_entries} == {"web", "web/app"}
    looked_at = f"settings, rules (none in {settings.rules.path}), 1 pod"
    assert (code(outcome), outcome.looked_at) == (2, f"koordinator: {looked_at}; rubik: {looked_at}")
    apart = replace(rubik, gates={"ioLimit": True})
    assert code(check([loaded(settings), loaded(apart)], settings, rules=False, pods="")) == 0


def features(*names: Any, **blocks: Any) -> str:
    return json.dumps({"agent": {"enabledFeatures": list(names)}, **blocks})


PARAM = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")


def disk(**more: Any) -> str:
    device = {"dev": "/dev/sda", "model": "linear", "param": dict.fromkeys(PARAM, 1)} | more
    return features("ioCost", ioCost=[{"nodeName": "global", "config": [device]}])


#: rubik's files with a mistake -> the first key and what is wrong with it.
WRONG_FILES = {
    "[]": ": expected a mapping of keys to values, not []",
    "5": ": expected a mapping of keys to values, not 5",
    '"x"': ': expected a mapping of keys to values, not "x"',
    "{": ": not valid JSON: expecting property name",
    '{"agent": {}} more': ": not valid JSON: extra data in column 15",
    '{"agent": {"logSize": NaN}}': ": contains NaN, which is not valid JSON",
    features("psi", psi={"resource": ["cpu"], "avg10threshold": float("inf")}): ": contains Infinity, which is not",
    "[" * 100_000: ": nested deeper than 100 levels",
    '{"agent": ' * 20_000: ": nested deeper than 100 levels",
    "\udcff": ": not UTF-8 text",
    '{"agent": []}': "agent: expected a mapping of keys to values, not []",
    '{"agent": "x"}': 'agent: expected a mapping of keys to values, not "x"',
    '{"agent": {}, "agent": {"enabledFeatures": ["cpi"]}}': ": agent: duplicate key",
    '{"agnet": {"enabledFeatures": ["cpi"]}}': 'agnet: unknown key; did you mean "agent"?',
    '{"logLevel": "info", "cacheConfig": {"enable": true}}': "cacheConfig: is a key of rubik's old configuration",
    '{"autoConfig": true, "autoCheck": false, "logSize": 1024}': "autoCheck: is a key of rubik's old configuration",
    '{"logLevel": "info", "cgroupRoot": "/sys/fs/cgroup"}': "logLevel: is a key of rubik's old configuration format",
    '{"psi": {"resource": ["cpu"]}}': "psi: is a block of rubik's file, which has no key",
    '{"Agent": {"enabledFeatures": ["cpi"]}}': 'Agent: unknown key; did you mean "agent"?',
    '{"agent": {"enabledFeatures": 5}}': "agent.enabledFeatures: expected a list, not 5",
    '{"agent": {"enabledFeatures": "psi"}}': 'agent.enabledFeatures: expected a list, not "psi"',
    '{"agent": {"enabledFeatures": {}}}': "agent.enabledFeatures: expected a list, not {}",
    features(1): "agent.enabledFeatures[0]: expected a string, not 1",
    features(None): "agent.enabledFeatures[0]: expected a string, not null",
    features(["psi"]): 'agent.enabledFeatures[0]: expected a string, not ["psi"]',
    features("cpi", "cpi"): 'agent.enabledFeatures[1]: "cpi" is listed twice; list it once',
    features("quotaTrubo"): 'agent.enabledFeatures[0]: "quotaTrubo" is not a service; did you mean "quotaTurbo"?',
    '{"agent": {"logSize": 1%s}}' % ("0" * 400): "agent.logSize: expected a whole number from -9223372036854775808 to",
    '{"agent": {"logLevel": "loud"}}': 'agent.logLevel: "loud" is not one of debug, info, warn, error, stack; use one',
    features("psi"): "psi: is switched on but has no block",
    features("psi", psi=[]): "psi: expected a mapping of keys to values, not []",
    features("psi", psi={"resource": []}): "psi.resource: is empty; list at least one of cpu, memory, io",
    features(
        "psi", psi={"resource": ["cpu"], "avg10threshold": 1e308}
    ): "psi.avg10threshold: expected a number from 5.0 to",
    features("quotaTurbo", quotaTurbo="x"): 'quotaTurbo: expected a mapping of keys to values, not "x"',
    features(
        "quotaTurbo", quotaTurbo={"highWaterMark": -1}
    ): "quotaTurbo.highWaterMark: expected a whole number from 0 to 99",
    features(
        "quotaTurbo", quotaTurbo={"highWaterMark": 50.5}
    ): "quotaTurbo.highWaterMark: expected a whole number, not 50.5",
    features(
        "quotaTurbo", quotaTurbo={"highWaterMark": True}
    ): "quotaTurbo.highWaterMark: expected a whole number, not true",
    features(
        "memoryevict", memoryevict={"threshold": "50"}
    ): 'memoryevict.threshold: expected a whole number, not "50"; write',
    features("cpuevict", cpuevict={"interval": 0}): "cpuevict.interval: expected a whole number from 1 to 3600, not 0",
    features("dynCache", dynCache={"l3Percent": [1]}): "dynCache.l3Percent: expected a mapping of keys to values",
    features("ioCost", ioCost={}): "ioCost: expected a list, not {}",
    features("ioCost", ioCost=[5]): "ioCost[0]: expected a mapping of keys to values, not 5",
    disk(model="lin"): 'ioCost[0].config[0].model: "lin" is not linear; use "linear"',
    disk(param={"rbps": -1}): "ioCost[0].config[0].param.rbps: -1 is not above 0; use the maximum rate of the disk",
    disk(param={}): "ioCost[0].config[0].param.rbps: 0 is not above 0",
}


def checked(folder: Path, text: str, **flags: Any) -> CheckOutcome:
    """The check of a file of rubik's, as `nri agent check --profile rubik FILE` has it."""
    path = folder / "config.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    actual: Any
    try:
        actual = [AGENT_SETTINGS.load(path, flags={"profile": ("--profile", "rubik")}, environment={})]
    except ConfigError as error:
        actual = error
    return check(actual, AgentSettings(rules=RuleSettings(source="apiserver")), rules=False, pods="")


@pytest.mark.parametrize(("text", "message"), WRONG_FILES.items(), ids=range(len(WRONG_FILES)))
def test_a_mistake_in_rubiks_file_is_reported_with_its_key_and_the_next_step(
    text: str, message: str, tmp_path: Path
) -> None:
    outcome = checked(tmp_path, text)
    first = outcome.findings[0]
    advice = f"; {first.next}" if first.next else ""
    assert f"{first.what}: {first.problem}{advice}".startswith(message)
    assert all(finding.where.startswith(f"{tmp_path}/config.json") for finding in outcome.findings)
    assert code(outcome) == (1 if "duplicate" in message and not first.what else 2)
    assert len(outcome.findings) == (6 if "rbps" in message else 1)


#: Rubik's own documented example: what it switches on includes both services of quotas, and a key that nothing reads.
DOCUMENTED = {
    "preemption": {
        "resource": ["cpu", "memory", "net"],
        "net": {"waterline": 20, "bandwidthLow": 10, "bandwidthHigh": 100},
    },
    "quotaTurbo": {"highWaterMark": 50, "syncInterval": 100},
    "dynCache": {"defaultLimitMode": "static", "l3Percent": {"low": 20, "mid": 30, "high": 50}},
    "ioCost": [
        {
            "nodeName": "k8s-single",
            "config": [{"dev": "sdb", "enable": True, "model": "linear", "param": dict.fromkeys(PARAM, 10_000_000)}],
        }
    ],
}


def test_the_example_of_rubiks_documentation_is_valid_and_ignored_keys_are_notes(tmp_path: Path) -> None:
    text = features("preemption", "dynCache", "ioLimit", "ioCost", "quotaBurst", "quotaTurbo", **DOCUMENTED)
    outcome = checked(tmp_path, text)
    assert (outcome.findings, code(outcome)) == ([], 0)
    assert [note.partition(": RubikConfiguration: ")[2] for note in outcome.notes] == [
        "ioCost[0].config[0].enable: nothing reads it"
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{"agent": {"enabledFeatures": ["cpi"], "logLevl": "info"}}', "agent.logLevl: nothing reads it; did you mean"),
        (features("quotaTurbo", quotaTurbo={"higWaterMark": 5}), "quotaTurbo.higWaterMark: nothing reads it; did you"),
    ],
)
def test_an_unknown_key_is_a_note(tmp_path: Path, text: str, note: str) -> None:
    outcome = checked(tmp_path, text)
    assert (outcome.findings, code(outcome), len(outcome.notes)) == ([], 0, 1)
    assert note in outcome.notes[0]


def test_the_number_of_notes_on_unknown_keys_is_limited(tmp_path: Path) -> None:
    large = {"agent": {"enabledFeatures": ["cpi"], **{f"k{number}": 1 for number in range(5000)}}}
    assert len(checked(tmp_path, json.dumps(large)).notes) == 100


@pytest.mark.parametrize("text", ["", "null", "{}", '{"agent": null}', '{"agent": {}}', features()])
def test_a_file_without_enabled_services_is_reported_with_the_available_ones(text: str, tmp_path: Path) -> None:
    outcome = checked(tmp_path, text)
    (note,) = outcome.notes
    assert note.startswith(
        "agent.enabledFeatures: no hook or strategy is enabled, so the agent would do nothing; choose from pre"
    )
    assert (outcome.findings, code(outcome), note.count("quotaBurst")) == ([], 0, 1)
    assert checked(tmp_path, features("cpi")).notes == []
