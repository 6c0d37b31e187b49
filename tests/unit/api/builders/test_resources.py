"""Resources set to zero or empty differ from unset resources."""

from __future__ import annotations

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update


def test_zero_is_different_from_unset() -> None:
    adjustment = Adjustment().set_memory_limit(0).set_pids_limit(0).set_oom_score_adj(0).set_memory_use_hierarchy(False)
    second = Adjustment.from_bytes(adjustment.to_bytes())
    assert (second.memory_limit, second.pids_limit, second.oom_score_adj, second.memory_use_hierarchy) == (
        0,
        0,
        0,
        False,
    )


def test_an_empty_class_is_different_from_unset() -> None:
    second = Update.from_bytes(Update("c").set_rdt_class("").set_blockio_class("").to_bytes())
    assert second.rdt_class == second.blockio_class == ""
