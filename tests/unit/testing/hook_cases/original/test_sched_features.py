"""The scheduler's features, and core scheduling among them."""

import pytest

from nri.testing.hook_cases.original import sched_features


def test_features_are_on_or_off_but_not_both() -> None:
    assert sched_features.features("NO_A B\n") == {"A": False, "B": True}
    wanted = {"A": True, "B": True, "C": False}
    assert sched_features.features_to_write({"A": False, "B": True}, wanted) == ["A", "NO_C"]
    with pytest.raises(ValueError, match="on and off"):
        sched_features.features("A NO_A")


def test_core_scheduling_is_a_sysctl_or_a_feature() -> None:
    assert sched_features.core_sched_supported("0", None) == (True, "sysctl supported")
    assert sched_features.core_sched_supported(None, "NO_CORE_SCHED")[0]
    assert not sched_features.core_sched_supported(None, "A")[0]
    assert sched_features.core_sched_supported(None, None) == (False, "file not exist")
