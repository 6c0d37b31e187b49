"""Users of an image, by name and by number."""

from pathlib import Path

import pytest

from nri.engine.images.users import User, parse_user, resolve_user
from nri.engine.support.errors import InvalidRequest

PASSWD = "root:x:0:0:root:/root:/bin/sh\n# a comment\nme:x:1000:100:Me:/home/me:/bin/sh\nbroken:x\n7:x:70:71::/seven:\n"
GROUP = "root:x:0:\nusers:x:100:me\nwheel:x:10:root,me\n"


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("", User(0, 0, (10,), "/root", "root")),
        ("me", User(1000, 100, (100, 10), "/home/me", "me")),
        ("1000", User(1000, 100, (100, 10), "/home/me", "me")),
        ("me:wheel", User(1000, 10, (), "/home/me", "me")),
        ("me:", User(1000, 100, (), "/home/me", "me")),
        ("4242", User(4242, 0, (), "/", "")),
        ("4242:4343", User(4242, 4343, (), "/", "")),
        (":wheel", User(0, 10, (), "/root", "root")),
    ],
)
def test_a_user_is_found(text: str, user: User) -> None:
    assert parse_user(PASSWD, GROUP, text) == user


def test_more_groups_are_added_once() -> None:
    assert parse_user(PASSWD, GROUP, "me", (10, 99)).groups == (100, 10, 99)


@pytest.mark.parametrize("text", ["you", "me:nogroup", "-1", "4294967295", "1000:99999999999"])
def test_a_user_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_user(PASSWD, GROUP, text)


def test_a_link_out_of_the_image_shows_nothing_of_the_host(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (tmp_path / "passwd").write_text("spy:x:5:5::/:\n")
    (root / "etc/passwd").symlink_to("../../passwd")
    with pytest.raises(InvalidRequest, match="'spy'"):
        resolve_user(root, "spy")
    (root / "etc/passwd").unlink()
    (root / "etc/passwd").mkdir()
    assert resolve_user(root, "12").uid == 12
