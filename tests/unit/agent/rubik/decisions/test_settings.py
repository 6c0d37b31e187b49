"""rubik's configuration file: defaults, ranges, and errors that name file, key, value and range."""

from __future__ import annotations

import json

import pytest

from nri.agent.rubik.decisions.settings import Agent, CpuEvict, File, Percents, QuotaTurbo, read, services
from nri.config import Source
from nri.config.complaint import WrongValue
from nri.config.layers import layer_of
from nri.errors import ConfigError


def load(source: Source) -> File:
    """A file as it is read where the agent starts."""
    return read(layer_of(source).tree, source)


def _read(**blocks: object) -> dict[str, object]:
    text = json.dumps({"agent": {"enabledFeatures": list(blocks)}, **blocks}, indent=1)
    return services(load(Source("/var/lib/rubik/config.json", text, "json")))


def test_a_block_says_what_differs_from_the_defaults() -> None:
    found = _read(quotaTurbo={"HIGHWATERMARK": 50, "alarmWaterMark": None}, cpuevict={"interval": 5}, ioLimit=None)
    assert found == {
        "quotaTurbo": QuotaTurbo(highWaterMark=50),
        "cpuevict": CpuEvict(interval=5, windows=10),
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
        ({"cpuevict": {"windows": 3, "interval": 2}}, "cpuevict.windows: 3 s is no multiple of interval 2 s"),
        ({"memoryevict": {}}, "memoryevict.threshold: missing"),
        ({"psi": {"resource": ["disk"]}}, 'psi.resource[0]: expected one of cpu, memory, io, not "disk"'),
        ({"dynCache": {"l3Percent": {"low": 60}}}, "dynCache.l3Percent.low: 60, mid 30 and high 50 do not ascend"),
        ({"quotaTurbo": {"highWaterMark": 90}}, "quotaTurbo.highWaterMark: 90 is not less than alarmWaterMark 80"),
        ({"preemption": {"resource": ["net"]}}, "preemption.net: waterline is missing: from 20 to 10238976"),
        (
            {
                "preemption": {
                    "resource": ["cpu", "net"],
                    "net": {"waterline": 20, "bandwidthLow": 9, "bandwidthHigh": -1},
                }
            },
            "preemption.net: bandwidthHigh -1 is not from 1 to 10238976 (the resource net needs all three)",
        ),
        (
            {"preemption": {"resource": ["net"], "net": {"waterline": 20, "bandwidthLow": 9, "bandwidthHigh": 9}}},
            "preemption.net: bandwidthLow 9 is not less than bandwidthHigh 9",
        ),
        ({"memoryevict": {"threshold": 60, "cooldown": 2**63 - 1}}, "memoryevict.cooldown: expected a whole number"),
        ({"psi": 3}, "psi"),
        ({"psi": {"resource": []}}, "psi.resource: is empty"),
        ({"preemption": None}, "preemption: is switched on and has no block"),
        ({"numa": {}}, 'enabledFeatures[0]: "numa" is no service'),
    ],
)
def test_an_error_names_file_line_key_value_and_range(block: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(**block)
    assert words in str(caught.value)
    assert str(caught.value).startswith("/var/lib/rubik/config.json")


def test_a_network_that_is_not_held_back_may_be_anything() -> None:
    assert _read(preemption={"resource": ["cpu"], "net": {"waterline": 1, "bandwidthLow": -9}})


def test_every_error_of_every_block_is_told_at_once_and_a_service_that_is_off_has_none() -> None:
    with pytest.raises(ConfigError) as caught:
        _read(quotaTurbo={"highWaterMark": -1}, psi={"resource": []})
    assert len(caught.value.others) == 1
    text = '{"agent": {"enabledFeatures": ["cpi"]}, "psi": {"resource": 1}}'
    assert services(load(Source("f", text, "json"))) == {"cpi": None}


def test_keys_that_nothing_reads_are_known() -> None:
    text = (
        '{"agent": {"enabledFeatures": ["dynMemory"], "logLevl": 1}, "dynMemory": {"policy": "fssr", "x": 1}, "Psi": 1}'
    )
    file = load(Source("f", text, "json"))
    services(file)
    assert [str(each) for each in file.unread] == [
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
def test_what_is_no_file_of_its_kind_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        load(Source("f", text, "json"))


def test_values_of_the_agent_are_asked_for_apart() -> None:
    with pytest.raises(WrongValue, match="logSize 9 MB is not from 10 to 1048576"):
        load(Source("f", '{"agent": {"logSize": 9}}', "json")).agent.complain()
    with pytest.raises(WrongValue, match="no absolute path"):
        Agent(logDriver="file", logDir="log").complain()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"agent": {"enabledFeatures": ["psi", "psi"]}, "psi": {}}', '"psi" is there twice'),
        ("[]", "is no JSON object"),
        ("{", "rubik.json"),
    ],
)
def test_a_file_with_a_mistake_outside_of_the_services_is_refused_with_its_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        services(load(Source("rubik.json", text, "json")))
    assert words in str(caught.value)


def test_an_empty_file_has_the_defaults_and_a_key_that_nothing_reads_is_kept_apart() -> None:
    assert load(Source("rubik.json", "{}", "json")).agent == Agent()
    assert load(Source("rubik.json", '{"agent": {"logLvl": "info"}}', "json")).unread[0].key == "agent.logLvl"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (Agent(logLevel="loud"), '"loud" is none of debug'),
        (Agent(logSize=5), "5 MB is not from 10 to"),
        (Agent(logDriver="file", logDir="here"), '"here" is no absolute path'),
    ],
)
def test_a_value_of_the_agent_that_cannot_be_is_complained_of(agent: Agent, words: str) -> None:
    with pytest.raises(WrongValue, match=words):
        agent.complain()
