"""Switches of the scheduler."""

import pytest

from nri.policies.koordinator.kernel.sched import CoreSched, core_sched


@pytest.mark.parametrize(
    ("sysctl", "features", "how"),
    [
        ("1\n", None, CoreSched(True)),
        ("0\n", "NO_CORE_SCHED", CoreSched(True, sysctl=True)),
        ("?", "A NO_CORE_SCHED", CoreSched(True, feature=True)),
        (None, "A CORE_SCHED", CoreSched(True)),
        (None, "A", CoreSched(False)),
        (None, None, CoreSched(False)),
    ],
)
def test_core_scheduling_is_switched_by_a_sysctl_or_else_by_a_feature(
    sysctl: str | None, features: str | None, how: CoreSched
) -> None:
    assert core_sched(sysctl, features) == how
