"""Gates have the names and defaults of Koordinator's."""

from typing import get_args

from nri.agent.settings.gates import LOOPS, Gate, hooks_on, loops_on
from nri.policies.koordinator.profile import PROFILE


def test_there_is_a_gate_for_every_hook_and_strategy_and_one_for_share_pools_of_batch_pods() -> None:
    assert set(get_args(Gate)) == {row.name for row in PROFILE} | set(LOOPS) | {"BECPUManager"}


def test_without_a_word_hooks_and_strategies_are_on_as_koordinator_has_them() -> None:
    assert hooks_on({}) == {"GroupIdentity", "CPUSetAllocator", "BatchResource"}
    assert loops_on({}) == {"BECPUSuppress", "CPUBurst"}


def test_a_gate_switches_its_own_hook_or_strategy_and_no_other() -> None:
    assert hooks_on({"Resctrl": True, "GroupIdentity": False, "CPUBurst": False}) == {
        "CPUSetAllocator",
        "BatchResource",
        "Resctrl",
    }
    assert loops_on({"CPUBurst": False, "BEMemoryEvict": True}) == {"BECPUSuppress", "BEMemoryEvict"}
