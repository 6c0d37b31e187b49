"""rubik's file: its values and errors, and its use as settings of the agent and as a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.agent.rubik import cpu_evict, quota_turbo
from nri.agent.rubik.dyn_cache import Percents
from nri.agent.rubik.profile import PROFILE, READER
from nri.agent.rubik.service import Node
from nri.agent.rubik.settings import KIND, Agent, File
from nri.agent.rules.files import FileRules
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.agent.settings.values import RuleSettings
from nri.config import Source
from nri.config.complaint import WrongValue, single_errors
from nri.config.layers import parse_layer
from nri.config.settings import LoadedSettings
from nri.errors import ConfigError


def load(source: Source) -> File:
    """A file as it is read where the agent starts."""
    return READER.read(parse_layer(source).tree, source)


def _read(**blocks: object) -> dict[str, object]:
    text = json.dumps({"agent": {"enabledFeatures": list(blocks)}, **blocks}, indent=1)
    return READER.services(load(Source("/var/lib/rubik/config.json", text, "json")))


def test_a_block_has_the_values_of_the_file_and_the_defaults() -> None:
    actual = _read(quotaTurbo={"HIGHWATERMARK": 50, "alarmWaterMark": None}, cpuevict={"interval": 5}, ioLimit=None)
    assert actual == {
        "quotaTurbo": quota_turbo.Block(highWaterMark=50),
        "cpuevict": cpu_evict.Block(interval=5, windows=10),
        "ioLimit": None,
    }
    assert _read(memoryevict={"threshold": 60, "THRESHOLD": 5})["memoryevict"].threshold == 60  # type: ignore[attr-defined]
    cache = _read(dynCache={"l3Percent": {"mid": 40}})["dynCache"]
    assert (cache.l3Percent, cache.memBandPercent.low) == (Percents(20, 40, 50), 10)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (
            {"quotaTurbo": {"syncInterval": 99}},
            "quotaTurbo.syncInterval: expected a whole number from 100 to 10000, not 99",
        ),
        ({"cpuevict": {"windows": 3, "interval": 2}}, "cpuevict.windows: 3 s is not a multiple of interval 2 s"),
        ({"memoryevict": {}}, "memoryevict.threshold: missing"),
        ({"psi": {"resource": ["disk"]}}, 'psi.resource[0]: expected one of cpu, memory, io, not "disk"'),
        ({"dynCache": {"l3Percent": {"low": 60}}}, "dynCache.l3Percent.low: 60, mid 30 and high 50 do not ascend"),
        ({"quotaTurbo": {"highWaterMark": 90}}, "quotaTurbo.highWaterMark: 90 is not less than alarmWaterMark 80"),
        (
            {"preemption": {"resource": ["net"]}},
            "preemption.net: waterline is missing; it must be between 20 and 10238976",
        ),
        (
            {
                "preemption": {
                    "resource": ["cpu", "net"],
                    "net": {"waterline": 20, "bandwidthLow": 9, "bandwidthHigh": -1},
                }
            },
            (
                "preemption.net: bandwidthHigh -1 is not between 1 and 10238976 "
                "(the resource net requires waterline, bandwidthLow and bandwidthHigh)"
            ),
        ),
        (
            {"preemption": {"resource": ["net"], "net": {"waterline": 20, "bandwidthLow": 9, "bandwidthHigh": 9}}},
            "preemption.net: bandwidthLow 9 is not less than bandwidthHigh 9",
        ),
        ({"memoryevict": {"threshold": 60, "cooldown": 2**63 - 1}}, "memoryevict.cooldown: expected a whole number"),
        ({"psi": 3}, "psi"),
        ({"psi": {"resource": []}}, "psi.resource: is empty"),
        ({"preemption": None}, "preemption: is switched on but has no block"),
        ({"numa": {}}, 'enabledFeatures[0]: "numa" is not a service'),
    ],
)
def test_an_error_names_file_line_key_value_and_range(block: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(**block)
    assert words in str(caught.value)
    assert str(caught.value).startswith("/var/lib/rubik/config.json")


def test_an_unused_network_block_is_not_checked() -> None:
    assert _read(preemption={"resource": ["cpu"], "net": {"waterline": 1, "bandwidthLow": -9}})


def test_all_errors_of_enabled_services_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        _read(quotaTurbo={"highWaterMark": -1}, psi={"resource": []})
    assert len(caught.value.others) == 1
    text = '{"agent": {"enabledFeatures": ["cpi"]}, "psi": {"resource": 1}}'
    assert READER.services(load(Source("f", text, "json"))) == {"cpi": None}


def test_unknown_keys_are_listed() -> None:
    text = (
        '{"agent": {"enabledFeatures": ["dynMemory"], "logLevl": 1}, "dynMemory": {"policy": "fssr", "x": 1}, "Psi": 1}'
    )
    file = load(Source("f", text, "json"))
    READER.services(file)
    assert [str(entry) for entry in file.unread] == [
        "Psi: nothing reads it; did you mean psi?",
        "agent.logLevl: nothing reads it; did you mean logLevel?",
        "dynMemory.x: nothing reads it",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"agent": {}} more',
        "[]",
        "{",
        '{"agent": {"logSize": 1e1}}',
        f'{{"agent": {{"logSize": {2**63}}}}}',
    ],
)
def test_a_file_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        load(Source("f", text, "json"))


def test_settings_of_the_agent_are_checked_separately() -> None:
    with pytest.raises(WrongValue, match="logSize 9 MB is not between 10 and 1048576"):
        load(Source("f", '{"agent": {"logSize": 9}}', "json")).agent.complain()
    with pytest.raises(WrongValue, match="must be an absolute path"):
        Agent(logDriver="file", logDir="log").complain()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"agent": {"enabledFeatures": ["psi", "psi"]}, "psi": {}}', '"psi" is listed twice'),
        ("[]", "is not a JSON object"),
        ("{", "rubik.json"),
    ],
)
def test_a_mistake_outside_of_the_services_is_an_error_with_its_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        READER.services(load(Source("rubik.json", text, "json")))
    assert words in str(caught.value)


def test_an_empty_file_has_the_defaults_and_unknown_keys_are_listed() -> None:
    assert load(Source("rubik.json", "{}", "json")).agent == Agent()
    assert load(Source("rubik.json", '{"agent": {"logLvl": "info"}}', "json")).unread[0].key == "agent.logLvl"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (Agent(logLevel="loud"), '"loud" is not one of debug'),
        (Agent(logSize=5), "5 MB is not between 10 and"),
        (Agent(logDriver="file", logDir="here"), '"here" must be an absolute path'),
    ],
)
def test_an_invalid_setting_of_the_agent_is_an_error(agent: Agent, words: str) -> None:
    with pytest.raises(WrongValue, match=words):
        agent.complain()


TURBO, PSI = {"quotaTurbo": {"highWaterMark": 50}}, {"psi": {"resource": ["cpu"]}}


def text(agent: dict[str, Any] | None = None, **blocks: Any) -> str:
    return json.dumps({"agent": {"enabledFeatures": list(blocks), **(agent or {})}, **blocks}, indent=1)


def loaded(folder: Path, content: str, name: str = "config.json") -> LoadedSettings[AgentSettings]:
    file = folder / name
    file.write_text(content)
    return AGENT_SETTINGS.load(file, environment={})


@pytest.mark.parametrize("name", ["config.json", "config"])
def test_rubiks_file_becomes_the_settings_of_an_agent_over_nri(tmp_path: Path, name: str) -> None:
    agent = {"informerType": "nri", "cgroupDriver": "systemd", "logLevel": "stack", "cgroupRoot": "/host/sys/fs/cgroup"}
    settings = loaded(tmp_path, text(agent, **TURBO, **PSI), name).settings
    assert (settings.profile, settings.modes, settings.pods.source) == ("rubik", ("nri", "standalone"), "nri")
    assert (settings.standalone.cgroup_driver, settings.log_level, str(settings.root)) == ("systemd", "debug", "/host")
    assert settings.rules.path == tmp_path / name
    assert settings.gates == {"quotaTurbo": True, "psi": True}


def test_by_default_pods_come_from_the_apiserver_and_the_node_name_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUBIK_NODE_NAME", "n1")
    settings = loaded(tmp_path, text()).settings
    assert (settings.modes, settings.pods.source, settings.rules.node_name) == (("standalone",), "apiserver", "n1")


def test_flags_and_later_files_override_rubiks_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text(**PSI))
    (tmp_path / "more.toml").write_text('modes = ["nri"]\npreview = ["psi"]\n')
    settings = AGENT_SETTINGS.load(tmp_path / "config.json", tmp_path / "more.toml", environment={}).settings
    assert (settings.profile, settings.modes, settings.preview) == ("rubik", ("nri",), ("psi",))


@pytest.mark.parametrize("content", ["{", '{"modes": ["nri"]}', "[]"])
def test_other_files_are_read_as_settings_of_the_agent(tmp_path: Path, content: str) -> None:
    if content.endswith("}"):
        assert loaded(tmp_path, content).settings == AgentSettings(modes=("nri",))
    else:
        with pytest.raises(ConfigError):
            loaded(tmp_path, content)


def test_all_mistakes_are_reported_with_file_key_value_and_range(tmp_path: Path) -> None:
    content = text(
        {"logSize": 3}, quotaTurbo={"highWaterMark": 90}, psi={"interval": 100, "avg10threshold": 500}, nump={}
    )
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, content)
    actual = list(map(str, single_errors(caught.value)))
    for words in (
        "agent.logSize: 3 MB is not between 10 and 1048576", "quotaTurbo.highWaterMark: 90 is not less than",
        "psi.interval: expected a whole number from 10 to 30, not 100", '"nump" is not a service',
        "psi.avg10threshold: expected a number from 5.0 to 100.0, not 500", "psi.resource: missing",
    ):  # fmt: skip
        assert sum(words in entry and str(tmp_path / "config.json") in entry for entry in actual) == 1, words


def test_settings_of_rubiks_log_and_root_are_notes(tmp_path: Path) -> None:
    notes = loaded(tmp_path, text({"logDriver": "file", "cgroupRoot": "/cgroup"})).notes
    assert [note.partition(": ")[2].partition(":")[0] for note in notes] == ["agent.logDriver", "agent.cgroupRoot"]


# -- the document -----------------------------------------------------------------------------------------------------


def store_of(folder: Path, content: str) -> tuple[RuleStore, FileRules]:
    (folder / "config.json").write_text(content)
    settings = AgentSettings(
        profile="rubik", gates={"quotaTurbo": True}, rules=RuleSettings(path=folder / "config.json")
    )
    store = RuleStore(PROFILE.node(settings, None), PROFILE.kinds, log=False)  # type: ignore[arg-type]  # not looked at
    source = FileRules(settings, store)
    source.check()
    return store, source


def test_a_changed_file_changes_the_rules_and_a_mistake_changes_none(tmp_path: Path) -> None:
    store, source = store_of(tmp_path, text(**TURBO))
    assert store.node.services["quotaTurbo"].highWaterMark == 50
    (tmp_path / "config.json").write_text(text(quotaTurbo={"highWaterMark": 40}) + " ")
    source.check()
    assert store.node.services["quotaTurbo"].highWaterMark == 40
    (tmp_path / "config.json").write_text(text(quotaTurbo={"highWaterMark": 400}) + "  ")
    source.check()
    assert store.node.services["quotaTurbo"].highWaterMark == 40
    (problem,) = store.problems()
    assert problem.error.startswith("quotaTurbo.highWaterMark: expected a whole number from 0 to 99, not 400")
    assert problem.source == f"{tmp_path / 'config.json'}:8"


def test_a_document_requests_services_without_enabling_gates(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path, text(**TURBO, **PSI))
    assert store.node.gates == frozenset()  # quotaTurbo is a strategy, no hook
    assert PROFILE.requested_gates(store.document(KIND)) == {
        "quotaTurbo": "agent.enabledFeatures[0]", "psi": "agent.enabledFeatures[1]",
    }  # fmt: skip
    assert PROFILE.requested_gates(None) == PROFILE.requested_gates({"agent": []}) == {}


def test_unknown_keys_are_reported(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path, text({"logLevl": "info"}, dynCache={}, **TURBO))
    assert [str(entry) for entry in store.unread()[KIND]] == [
        "agent.logLevl: nothing reads it; did you mean logLevel?",
    ]


def test_a_node_enables_a_hook_only_if_settings_and_document_enable_it() -> None:
    node = Node({"a": None, "b": None}, switched_on=frozenset({"b", "c"}))
    assert (node.gates, node.keeps_partial) == (frozenset({"b"}), False)
    kind = PROFILE.kinds[KIND]
    assert kind.into(node, None) is node
    assert kind.into(node, {}).gates == frozenset()


def test_strategies_have_the_blocks_of_the_document_and_none_without_a_document() -> None:
    services = PROFILE.strategy_rules()
    services.take(None)
    assert (services.has_document, services.blocks) == (False, {})
    document = json.loads(text(**TURBO))
    services.take(document)
    before = services.blocks
    services.take(document)
    assert services.blocks is before, "a document that has not changed is read once"
    assert (services.has_document, before["quotaTurbo"].highWaterMark) == (True, 50)
    services.take(json.loads(text(psi={})))
    assert services.errors and services.blocks is before
    services.take(None)
    assert services.blocks == {}


def test_both_quota_services_can_be_enabled_together(tmp_path: Path) -> None:
    settings = loaded(tmp_path, text(quotaBurst=None, **TURBO)).settings
    assert settings.gates == {"quotaBurst": True, "quotaTurbo": True}
