"""Two switches that exclude each other."""

import pytest

from nri.policies.koordinator.refresh import switches

IDENTITY, CORE = switches.GROUP_IDENTITY, switches.CORE_SCHED


@pytest.mark.parametrize(
    ("identity", "core", "writes"),
    [
        ("0", "1", ((CORE, "0"), (IDENTITY, "1"))),
        ("1", "0", ()),
        ("0", None, ((IDENTITY, "1"),)),
        (None, "1", ()),
    ],
)
def test_group_identity_switches_core_scheduling_off_first(
    identity: str | None, core: str | None, writes: tuple[tuple[str, str], ...]
) -> None:
    plan = switches.for_group_identity(identity, core, identity_known=identity is not None, core_known=core is not None)
    assert plan == (writes, "")


def test_core_scheduling_switches_group_identity_off_first_and_needs_a_kernel_that_has_it() -> None:
    plan = switches.for_core_sched("1", "0\n", None, identity_known=True)
    assert plan.writes == ((IDENTITY, "0"), (CORE, "1"))
    assert switches.for_core_sched(None, None, "A NO_CORE_SCHED", identity_known=False).writes == (
        (switches.FEATURES, "CORE_SCHED\n"),
    )
    assert switches.for_core_sched(None, None, "A B", identity_known=False).error
    assert not switches.for_core_sched(None, None, None, identity_known=False, built_in=True).error


def test_a_switch_that_cannot_be_read_is_an_error_after_the_other_is_off() -> None:
    plan = switches.for_group_identity(None, "1", identity_known=True, core_known=True)
    assert plan.writes == ((CORE, "0"),)
    assert IDENTITY in plan.error
    assert switches.for_core_sched("x", "1", None, identity_known=True).error


@pytest.mark.parametrize(
    ("sysctl", "features", "how"),
    [
        ("1\n", None, switches.CoreSched(True)),
        ("0\n", "NO_CORE_SCHED", switches.CoreSched(True, sysctl=True)),
        ("?", "A NO_CORE_SCHED", switches.CoreSched(True, feature=True)),
        (None, "A CORE_SCHED", switches.CoreSched(True)),
        (None, "A", switches.CoreSched(False)),
        (None, None, switches.CoreSched(False)),
    ],
)
def test_core_scheduling_is_switched_by_a_sysctl_or_else_by_a_feature(
    sysctl: str | None, features: str | None, how: switches.CoreSched
) -> None:
    assert switches.core_sched(sysctl, features) == how
