from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Account, ImageConfig, RequestedUser, find_account, parse_id, requested_user
from nri.engine.spec.user import user
from nri.errors import RequestError


def config(**fields: object) -> pb.ContainerConfig:
    context = pb.LinuxContainerSecurityContext(**fields)  # type: ignore[arg-type]
    return pb.ContainerConfig(linux=pb.LinuxContainerConfig(security_context=context))


def number(value: int) -> pb.Int64Value:
    return pb.Int64Value(value=value)


OF_IMAGE = "the user of image evil:1"
USER, NAME = "linux.security_context.run_as_user", "linux.security_context.run_as_username"
MOST = 2**32 - 2


@pytest.mark.parametrize(
    ("fields", "image", "expected"),
    [
        ({}, "", (0, None, OF_IMAGE)),
        ({}, "www", ("www", None, OF_IMAGE)),
        ({}, "33:44", (33, 44, OF_IMAGE)),
        ({}, "33:", (33, None, OF_IMAGE)),
        ({}, ":44", (0, 44, OF_IMAGE)),
        ({}, "0033:www", (33, "www", OF_IMAGE)),
        ({}, "+5", ("+5", None, OF_IMAGE)),
        ({}, "0x5", ("0x5", None, OF_IMAGE)),
        ({"run_as_user": number(0)}, "www:www", (0, None, USER)),
        ({"run_as_user": number(5), "run_as_group": number(6)}, "www", (5, 6, USER)),
        ({"run_as_user": number(MOST)}, "", (MOST, None, USER)),
        ({"run_as_username": "alice"}, "www", ("alice", None, NAME)),
        ({"run_as_username": "1000"}, "www", (1000, None, NAME)),
        ({"run_as_username": "alice:www"}, "www", ("alice:www", None, NAME)),
        ({"run_as_username": "alice", "run_as_group": number(0)}, "www", ("alice", 0, NAME)),
    ],
)
def test_digits_are_an_id_and_other_text_is_a_name(fields: dict, image: str, expected: tuple) -> None:
    config_ = config(**fields)
    config_.image.image = "evil:1"
    assert requested_user(config_, ImageConfig(user=image)) == RequestedUser(*expected)


@pytest.mark.parametrize(
    ("fields", "image", "problem"),
    [
        ({"run_as_group": number(5)}, "", r"run_as_group: 5: requires run_as_user"),
        ({"run_as_user": number(-1)}, "", r"run_as_user: -1: must be between"),
        ({"run_as_user": number(2**32 - 1)}, "", r"run_as_user: 4294967295: must be between"),
        (
            {"run_as_user": number(5), "run_as_group": number(2**32 - 1)},
            "",
            "4294967295: must be between",
        ),
        ({"run_as_username": "²"}, "", r'run_as_username: "²": must be between'),
        ({}, "²", r'the user of image \(without a name\): "²": must be between'),
        ({}, "٣", r"the user of image .*: must be between"),
        ({}, "4294967295", r'"4294967295": must be between'),
        ({}, "5:99999999999", r'"99999999999": must be between'),
        ({}, "1" * 5000, r"must be between 0 and 4294967294"),
    ],
)
def test_impossible_ids_are_errors(fields: dict, image: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        requested_user(config(**fields), ImageConfig(user=image))


PASSWD = (
    "1000:x:0:0::/:\nroot:x:0:0:root:/root:/bin/sh\n# a comment\n\nme:x:1000:100:Me:/home/me:/bin/sh\nbroken:x\n"
    "huge:x:99999999999:7::/:\nhalf:x:8:²::/:\nme:x:0:0::/:\nx\x85root:x:0:0::/:\nother:x:²:0::/:\n"
)
GROUP = "2000:x:0:nobody\nroot:x:0:\nusers:x:100:me\nwheel:x:10:root,me\nbad:x:²:half,huge\n:x:5:me\n"


@pytest.mark.parametrize(
    ("user_", "group", "expected"),
    [
        (0, None, (0, 0, ())),  # its first row is that of 1000, in no group
        ("root", None, (0, 0, (10,))),
        ("me", None, (1000, 100, (100, 10))),
        (1000, None, (1000, 100, (100, 10))),
        (1000, 2000, (1000, 2000, (100, 10))),
        (4242, None, (4242, 0, ())),
        (4242, "wheel", (4242, 10, ())),
        ("me", "root", (1000, 0, (100, 10))),
        (8, 5, (8, 5, None)),
    ],
)
def test_an_account_is_found_by_id_or_by_name(user_: int | str, group: int | str | None, expected: tuple) -> None:
    if expected[2] is None:
        with pytest.raises(RequestError, match=r"/etc/group has '²' for 'bad'"):
            find_account(RequestedUser(user_, group, "user"), PASSWD, GROUP)
        return
    assert find_account(RequestedUser(user_, group, "user"), PASSWD, GROUP) == Account(*expected)


@pytest.mark.parametrize(
    ("user_", "group", "problem"),
    [
        ("you", None, r'user: "you": the image has no such user in /etc/passwd'),
        ("#", None, "no such user"),
        ("broken", None, "no such user"),
        ("me:root", None, "no such user"),
        ("me", "2001", r'user: "2001": the image has no such group in /etc/group'),
        ("huge", None, r"/etc/passwd has '99999999999' for 'huge', which is not an id between 0 and 4294967294"),
        ("half", None, r"/etc/passwd has '²' for 'half'"),
        (8, None, r"/etc/passwd has '²' for 'half'"),
        ("other", 5, r"/etc/passwd has '²' for 'other'"),
        ("me", "bad", r"/etc/group has '²' for 'bad'"),
    ],
)
def test_used_rows_with_an_invalid_id_are_errors(user_: int | str, group: int | str | None, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        find_account(RequestedUser(user_, group, "user"), PASSWD, GROUP)


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "+1", " 1", "1_0", "0x1", "1.0", "4294967295", "1" * 5000])
def test_an_id_has_ascii_digits_within_the_kernels_range(text: str) -> None:
    assert parse_id(text) is None
    assert (parse_id("0"), parse_id("0000000012"), parse_id(str(MOST))) == (0, 12, MOST)


def test_more_groups_than_a_process_can_have_are_an_error() -> None:
    groups = "".join(f"g{entry}:x:{entry}:me\n" for entry in range(65_537))
    with pytest.raises(RequestError, match="at most 65536 groups"):
        find_account(RequestedUser("me", None, "user"), PASSWD, groups)
    with pytest.raises(RequestError, match=r"supplemental_groups: 65537: a process can have at most 65536 groups"):
        user(config(supplemental_groups=range(65_537)), ImageConfig(), Account())


def test_groups_are_primary_requested_and_with_merge_the_accounts() -> None:
    account = Account(1000, 5, (7, 9))
    assert user(config(supplemental_groups=[7, 8]), ImageConfig(), account)["additionalGids"] == [5, 7, 8, 9]
    strict = config(supplemental_groups=[7, 8], supplemental_groups_policy=pb.Strict)
    assert user(strict, ImageConfig(user="me"), account) == {"uid": 1000, "gid": 5, "additionalGids": [5, 7, 8]}


def test_a_strict_container_without_a_user_has_only_the_requested_groups() -> None:
    strict = config(supplemental_groups=[7, 8], supplemental_groups_policy=pb.Strict)
    assert user(strict, ImageConfig(), Account())["additionalGids"] == [7, 8]
