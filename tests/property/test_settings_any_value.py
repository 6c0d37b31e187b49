"""A settings class accepts or refuses any value of any key, with the key in the error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik.profile import READER, SERVICES
from nri.agent.settings import AgentSettings
from nri.config import Source, read
from nri.config.typed import fields_of, is_plain
from nri.engine.config.values import EngineConfig
from nri.errors import ConfigError
from nri.placement.balloons.options import Options as BalloonsOptions
from nri.placement.topology_aware.options import Options as TopologyAwareOptions
from nri.proxy.settings import ProxySettings

SHARES = {"low": 20, "mid": 30, "high": 50}
BLOCKS: dict[str, Any] = {
    "preemption": {"resource": ["net"], "net": {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 10}},
    "dynCache": {"defaultLimitMode": "static", "adjustInterval": 1000, "l3Percent": SHARES, "memBandPercent": SHARES},
    "ioCost": [{"nodeName": "global", "config": [{"dev": "sda", "model": "linear", "param": {"rbps": 1}}]}],
    "dynMemory": {"policy": "fssr"},
    "quotaTurbo": {"highWaterMark": 60, "alarmWaterMark": 80, "syncInterval": 100},
    "psi": {"resource": ["cpu"], "interval": 10, "avg10threshold": 5.0, "cooldown": 1},
    "cpuevict": {"interval": 1, "windows": 2, "threshold": 60, "cooldown": 20},
    "memoryevict": {"threshold": 60, "interval": 1, "cooldown": 4},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["low", "net", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of a tree and of everything in it."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(inner for key, value in pairs for inner in paths(value, (*path, key)))]


PLACES = [path for path in paths(BLOCKS) if path]


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a tree with another value at a path."""
    tree = copy.deepcopy(tree)
    branch = tree
    for key in path[:-1]:
        branch = branch[key]
    branch[path[-1]] = value
    return tree


def test_the_sample_has_every_block_and_is_accepted() -> None:
    assert BLOCKS.keys() == {row.name for row in SERVICES if row.block is not None}
    document = {"agent": {"enabledFeatures": [*BLOCKS]}, **BLOCKS}
    assert (
        READER.services(READER.read(document, Source("config.json", json.dumps(document), "json"))).keys()
        == BLOCKS.keys()
    )


@given(st.sampled_from(PLACES), VALUES)
def test_any_value_in_a_rubik_block_is_accepted_or_refused(path: tuple[Any, ...], value: Any) -> None:
    document = {"agent": {"enabledFeatures": [path[0]]}, **changed(BLOCKS, path, value)}
    try:
        READER.services(READER.read(document, Source("config.json", json.dumps(document), "json")))
    except ConfigError as error:
        assert "object" not in str(error) and error.key.startswith(str(path[0]))


#: Settings classes of programs, which check themselves or hold classes that do.
PROGRAMS = [AgentSettings, BalloonsOptions, EngineConfig, ProxySettings, TopologyAwareOptions]


def fields(cls: type, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all keys of a settings class."""
    matches = []
    for name, annotation in fields_of(cls).items():
        matches += [(*path, name), *(fields(annotation, (*path, name)) if is_plain(annotation) else [])]
    return matches


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda cls: cls.__module__)
@pytest.mark.parametrize("value", ["x", [], {}, True, -1.5, [{"a": "x"}]], ids=str)
def test_any_value_in_the_settings_of_a_program_is_accepted_or_refused(program: type, value: Any) -> None:
    for path in fields(program):
        tree = value
        for key in reversed(path):
            tree = {key: tree}
        try:
            read(program, [Source("file.json", json.dumps(tree), "json")])
        except ConfigError as error:
            assert "not supported between" not in str(error) and "object has no" not in str(error), error
