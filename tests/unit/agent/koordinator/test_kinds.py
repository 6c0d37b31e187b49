"""Reading of rule documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator.documents import NODE, SLO, TOPOLOGY
from nri.agent.koordinator.node import BatchRule, Node
from nri.agent.koordinator.profile import KINDS

KEYS = [
    "metadata", "annotations", "spec", "resourceQOSStrategy", "beClass", "cpuQOS", "enable", "policies", "cpuPolicy",
    "systemStrategy", "totalNetworkBandwidth", "hostApplications", "name", "resourceUsedThresholdWithBE",
    "node.koordinator.sh/cpu-shared-pools", "node.koordinator.sh/cpu-normalization-ratio", "netQOSPolicy",
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "tc", "terway-qos", "1e999999", "[]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)


@given(JSON, st.sampled_from(list(KINDS)))
def test_any_json_is_a_rule_or_a_value_error(document: Any, kind: str) -> None:
    try:
        rule = KINDS[kind].read(document)
    except ValueError as error:
        assert str(error)
    else:
        KINDS[kind].into(Node(), rule)


def test_an_unexpected_exception_becomes_an_error_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, NODE, KINDS[NODE]._replace(parse=lambda document: 1 // 0))
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        KINDS[NODE].read({})


def test_rules_of_one_kind_keep_those_of_the_others() -> None:
    rules = Node(batch=BatchRule(False, 2.0), ratio=2.0)
    with_slo = KINDS[SLO].into(rules, KINDS[SLO].read({"spec": {}}))
    assert (with_slo.batch, with_slo.ratio) == (BatchRule(True, 2.0), 2.0)
    slower = KINDS[NODE].into(with_slo, 1.5)
    assert (slower.batch, slower.ratio, slower.identity) == (BatchRule(True, 1.5), 1.5, with_slo.identity)
    assert KINDS[TOPOLOGY].into(slower, None) is slower


def test_batch_pods_have_no_quota_while_their_cgroup_is_limited_by_one() -> None:
    threshold = {"enable": True, "cpuSuppressPolicy": "cfsQuota"}
    rule = KINDS[SLO].read({"spec": {"resourceUsedThresholdWithBE": threshold}})
    assert KINDS[SLO].into(Node(), rule).batch.has_quota is False
