"""The files and lines of the rules behind a pod's values."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import PROFILE
from nri.agent.rules.files import FileRules
from nri.agent.rules.origins import with_places
from nri.agent.rules.store import RuleStore
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings

SLO = """\
kind: List
items:
- kind: NodeSLO
  spec:
    resourceQOSStrategy:
      beClass:
        cpuQOS: {enable: true}
- kind: Node
  metadata:
    annotations:
      node.koordinator.sh/cpu-normalization-ratio: "1.2"
"""


@pytest.fixture
def store(tmp_path: Path) -> RuleStore:
    store = RuleStore(Node(), PROFILE.kinds)
    (tmp_path / "a.yaml").write_text(SLO)
    FileRules(AgentSettings(rules=RuleSettings(path=tmp_path)), store).check()
    return store


def test_a_rule_has_file_line_key_and_its_hooks(tmp_path: Path, store: RuleStore) -> None:
    hooks = ("GroupIdentity", "BatchResource", "CPUNormalization", "GroupIdentity", "CPUSetAllocator")
    actual = with_places({"of": "BE", "values": [{"hook": hook} for hook in hooks]}, store, PROFILE)
    assert [(row["place"].removeprefix(f"{tmp_path}/"), row["key"], row["hooks"]) for row in actual["rule_keys"]] == [
        ("a.yaml:7", "resourceQOSStrategy.beClass.cpuQOS", ["GroupIdentity"]),
        ("", "resourceUsedThresholdWithBE.cpuSuppressPolicy", ["BatchResource"]),
        ("a.yaml:11", "annotation node.koordinator.sh/cpu-normalization-ratio", ["BatchResource", "CPUNormalization"]),
    ]
    assert actual["rules"]["NodeSLO"] == f"{tmp_path}/a.yaml"


def test_without_line_numbers_the_place_is_the_source(store: RuleStore) -> None:
    store.put("NodeSLO", {"spec": {"cpuBurstStrategy": {"policy": "auto"}}}, "an apiserver")
    (row,) = with_places({"values": [{"hook": "CPUBurst"}]}, store, PROFILE)["rule_keys"]
    assert row["place"] == "an apiserver"
