from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Account, ImageConfig, UserWish, wanted_user
from nri.engine.spec.user import user
from nri.errors import RequestError


def config(**fields: object) -> pb.ContainerConfig:
    context = pb.LinuxContainerSecurityContext(**fields)  # type: ignore[arg-type]
    return pb.ContainerConfig(linux=pb.LinuxContainerConfig(security_context=context))


def number(value: int) -> pb.Int64Value:
    return pb.Int64Value(value=value)


@pytest.mark.parametrize(
    ("fields", "image", "expected"),
    [
        ({}, "", ("0", "")),
        ({}, "www", ("www", "")),
        ({}, "33:44", ("33", "44")),
        ({"run_as_user": number(0)}, "www:www", ("0", "")),
        ({"run_as_user": number(5), "run_as_group": number(6)}, "www", ("5", "6")),
        ({"run_as_username": "alice"}, "www", ("alice", "")),
        ({"run_as_username": "alice", "run_as_group": number(0)}, "www", ("alice", "0")),
    ],
)
def test_who_is_wanted(fields: dict, image: str, expected: tuple[str, str]) -> None:
    assert wanted_user(config(**fields), ImageConfig(user=image)) == UserWish(*expected)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"run_as_group": number(5)}, r"run_as_group: 5: needs run_as_user beside it"),
        ({"run_as_user": number(-1)}, r"run_as_user: -1: is no id"),
        ({"run_as_user": number(2**32 - 1)}, r"is no id"),
    ],
)
def test_ids_that_cannot_be_are_errors(fields: dict, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        wanted_user(config(**fields), ImageConfig())


def test_groups_are_the_primary_one_the_requests_and_with_merge_the_accounts() -> None:
    account = Account(1000, 5, (7, 9))
    assert user(config(supplemental_groups=[7, 8]), account)["additionalGids"] == [5, 7, 8, 9]
    strict = config(supplemental_groups=[7, 8], supplemental_groups_policy=pb.Strict)
    assert user(strict, account) == {"uid": 1000, "gid": 5, "additionalGids": [5, 7, 8]}
