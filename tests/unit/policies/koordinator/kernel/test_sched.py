"""Switches of the scheduler."""

import pytest

from nri.policies.koordinator.kernel import sched


def test_features_are_on_or_off_but_not_both() -> None:
    assert sched.features("NO_A B\n") == {"A": False, "B": True}
    assert sched.features_to_write({"A": False, "B": True}, {"A": True, "B": True, "C": False}) == ["A", "NO_C"]
    with pytest.raises(ValueError, match="on and off"):
        sched.features("A NO_A")


def test_core_scheduling_is_a_sysctl_or_a_feature() -> None:
    assert sched.core_sched_supported("0", None) == (True, "sysctl supported")
    assert sched.core_sched_supported(None, "NO_CORE_SCHED")[0]
    assert not sched.core_sched_supported(None, "A")[0]
    assert sched.core_sched_supported(None, None) == (False, "file not exist")
