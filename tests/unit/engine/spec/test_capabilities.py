from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.capabilities import DEFAULT, KNOWN, capabilities
from nri.errors import RequestError

SOME = ("CAP_CHOWN", "CAP_KILL", "CAP_SYS_ADMIN")


def bounding(available: tuple[str, ...] = KNOWN, **names: list[str]) -> list[str]:
    context = pb.LinuxContainerSecurityContext(capabilities=pb.Capability(**names))
    capability_sets = capabilities(context, available)
    assert capability_sets["bounding"] == capability_sets["effective"] == capability_sets["permitted"]
    return capability_sets["bounding"]


def test_capabilities_are_in_the_order_of_their_numbers() -> None:
    assert len(KNOWN) == 41
    assert (KNOWN[0], KNOWN[21], KNOWN[40]) == ("CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE")


def test_by_default_the_engines_default_capabilities_are_set() -> None:
    assert set(bounding()) == set(DEFAULT)
    assert bounding(SOME) == ["CAP_CHOWN", "CAP_KILL"]


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        (["ALL"], [], list(SOME)),
        (["all"], ["KILL"], ["CAP_CHOWN", "CAP_SYS_ADMIN"]),
        (["CAP_SYS_ADMIN"], ["ALL"], ["CAP_SYS_ADMIN"]),
        (["ALL"], ["ALL"], []),
        (["sys_admin"], ["Cap_Chown"], ["CAP_KILL", "CAP_SYS_ADMIN"]),
        (["KILL"], ["KILL"], ["CAP_CHOWN"]),
    ],
)
def test_capabilities_can_be_added_and_dropped(add: list[str], drop: list[str], expected: list[str]) -> None:
    assert bounding(SOME, add_capabilities=add, drop_capabilities=drop) == expected


def test_ambient_capabilities_are_inheritable() -> None:
    capability = pb.Capability(drop_capabilities=["ALL"], add_ambient_capabilities=["KILL"])
    capability_sets = capabilities(pb.LinuxContainerSecurityContext(capabilities=capability), SOME)
    assert set(capability_sets) == {"bounding", "effective", "permitted", "inheritable", "ambient"}
    assert all(names == ["CAP_KILL"] for names in capability_sets.values())


def test_a_privileged_container_has_the_engines_capabilities() -> None:
    capability = pb.Capability(drop_capabilities=["ALL"])
    capability_sets = capabilities(pb.LinuxContainerSecurityContext(privileged=True, capabilities=capability), SOME)
    assert capability_sets["bounding"] == list(SOME)


def test_an_unknown_capability_is_an_error_with_field_and_value() -> None:
    with pytest.raises(RequestError, match=r'capabilities\.drop_capabilities: "FLY": is not a capability'):
        bounding(drop_capabilities=["FLY"])
    with pytest.raises(RequestError, match=r'add_capabilities: "CAP_BPF": the engine itself'):
        bounding(SOME, add_capabilities=["BPF"])
