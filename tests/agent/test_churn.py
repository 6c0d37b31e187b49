"""A short churn of both profiles in one process; `python -m tests.agent.churn` goes on for an hour."""

from __future__ import annotations

from tests.agent.churn import churn
from tests.agent.node import Node
from tests.agent.test_nri import running


def test_what_the_model_says_is_in_force_through_churn_and_nothing_is_left(node: Node) -> None:
    running(node.daemon)
    created = churn(node, seed=23, seconds=0, maximum=4, say=print)
    assert created.steps["create"] > 1
