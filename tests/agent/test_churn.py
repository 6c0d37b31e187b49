"""A short churn of both profiles in one process. `python -m tests.agent.churn` runs for an hour."""

from __future__ import annotations

from tests.agent.churn import churn
from tests.agent.node import Node
from tests.agent.test_nri import running


def test_cgroups_follow_the_model_during_churn_and_no_state_remains(node: Node) -> None:
    running(node.daemon)
    created = churn(node, seed=23, seconds=0, maximum=4, say=print)
    assert created.steps["create"] > 1
