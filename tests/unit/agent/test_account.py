"""The agent's explanation of a pod, with the rules and annotations of each hook, as shown to users."""

from __future__ import annotations

import pytest

from nri.agent.account import enriched
from nri.agent.koordinator.profile import PROFILE
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.verbs.agent.explain import show

VALUE = {"container": "app", "field": "cpuset.cpus", "value": "", "hook": "CPUSetAllocator", "reason": "cleared"}
FOUND = {"key": "u1", "namespace": "shop", "name": "web", "ended": True, "values": [VALUE], "errors": [], "writes": []}


def printed(capsys: pytest.CaptureFixture[str], *, quiet: bool = False, **more: object) -> str:
    settings = Settings()
    settings.quiet = quiet
    show(Output(settings), enriched({**FOUND, **more}, PROFILE))
    return capsys.readouterr().out


def test_every_value_and_error_has_the_rules_and_keys_of_its_hook() -> None:
    error = {"hook": "BatchResource", "reason": "no JSON"}
    actual = enriched({**FOUND, "errors": [error, {"hook": "somebody's"}]}, PROFILE)
    assert actual["values"][0]["rules"] == ["NodeResourceTopology"]
    assert actual["errors"][0]["rules"] == ["NodeSLO", "Node"]
    assert "node.koordinator.sh/extended-resource-spec" in actual["errors"][0]["reads"]
    assert (actual["errors"][1]["rules"], actual["errors"][1]["reads"]) == ([], [])


def test_only_keys_that_the_pod_has_are_listed() -> None:
    actual = enriched(
        {**FOUND, "keys": ["koordinator.sh/qosClass"], "values": [{**VALUE, "hook": "GroupIdentity"}, VALUE]}, PROFILE
    )
    assert [row["reads"] for row in actual["values"]] == [["koordinator.sh/qosClass"], ["koordinator.sh/qosClass"]]
    assert enriched({**FOUND, "keys": []}, PROFILE)["values"][0]["reads"] == []


def test_keys_already_in_the_explanation_are_kept() -> None:
    actual = enriched({**FOUND, "values": [{**VALUE, "reads": ["koordinator.sh/qosClass"]}]}, PROFILE)
    assert actual["values"][0]["reads"] == ["koordinator.sh/qosClass"]


def test_a_clear_is_shown_and_columns_without_values_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith("pod shop/web (ended)\n")
    assert '""' in text
    assert "VIA" not in text


def test_every_rule_is_shown_with_file_line_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"kind": "NodeSLO", "key": "resourceQOSStrategy.beClass.cpuQOS", "place": "a.yaml:7", "hooks": ["CoreSched"]}
    text = printed(capsys, rules={"NodeSLO": "a.yaml"}, rule_keys=[row, {**row, "place": ""}])
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["a.yaml:7", "NodeSLO", "resourceQOSStrategy.beClass.cpuQOS", "CoreSched"],
        ["(default)", "NodeSLO", "resourceQOSStrategy.beClass.cpuQOS", "CoreSched"],
    ]


def test_rules_notes_and_a_pod_without_values_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, values=[], rules={"NodeSLO": "a.yaml", "Node": ""}, notes=["a note"])
    assert text.splitlines()[1:] == [
        "no hook has set a value",
        "",
        "Rules: NodeSLO: a.yaml; Node: none",
        "",
        "a note",
    ]


def test_an_unused_rule_is_shown_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"kind": "NodeSLO", "source": "a.yaml:7", "error": "spec.x: 5 is not true or false"}
    text = printed(capsys, rules={"NodeSLO": "a.yaml"}, rule_problems=[problem])
    assert "Rules: NodeSLO: a.yaml\nNot used: NodeSLO of a.yaml:7: spec.x: 5 is not true or false\n" in text


def test_the_quiet_output_has_one_line_per_value(capsys: pytest.CaptureFixture[str]) -> None:
    values = [{**VALUE, "value": "0-1"}, {**VALUE, "container": "", "field": "cpu.bvt", "value": "2"}]
    assert printed(capsys, quiet=True, values=values) == "app cpuset.cpus 0-1\npod cpu.bvt 2\n"


def test_every_strategy_shows_the_time_of_its_next_decision(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"strategy": "psi", "in_s": 0.5, "every_s": 10.0, "state": "online pods wait 2 % for cpu", "preview": True}
    show(Output(Settings()), {"key": "u", "values": [], "strategies": [row]})
    text = capsys.readouterr().out
    assert "psi" in text and "in 0.5 s, every 10 s, preview only" in text


def test_unchanged_values_are_a_table_with_the_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"container": "app", "strategy": "CPUBurst", "reason": "the token bucket is empty"}
    show(Output(Settings()), {"key": "u", "values": [], "unchanged": [row, {**row, "container": ""}]})
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()[-2:]]
    assert lines == [[name, "CPUBurst", "the token bucket is empty"] for name in ("app", "pod")]
