"""An image as the store returns it."""

import os
from pathlib import Path

import pytest

from nri.engine.images.image import Image, account_file
from nri.engine.support.errors import InvalidRequest


def test_missing_settings_of_an_image_are_empty_and_never_none() -> None:
    for config in ({}, dict.fromkeys(("User", "Entrypoint", "Cmd", "Env", "WorkingDir", "StopSignal", "Labels"))):
        image = Image("sha256:a", config=config)
        assert (image.user, image.working_dir, image.stop_signal) == ("", "", "")
        assert (image.entrypoint, image.cmd, image.env, image.labels) == ([], [], [], {})


def test_the_store_returns_copies() -> None:
    image = Image("sha256:a", config={"Cmd": ["sh"], "Env": ["A=1"], "Labels": {"a": "b"}, "User": "1:2"})
    image.cmd.append("-c")
    image.env.clear()
    image.labels["c"] = "d"
    assert (image.cmd, image.env, image.labels, image.user) == (["sh"], ["A=1"], {"a": "b"}, "1:2")


@pytest.mark.parametrize(
    ("requested", "name"),
    [
        (("sha256:" + "a" * 64,), "docker.io/library/web:1"),
        (("", "web:2"), "docker.io/library/web:2"),
        (("nginx", "sha256:a"), "docker.io/library/web:1"),
        (("web@sha256:" + "b" * 64,), "docker.io/library/web@sha256:" + "b" * 64),
        (("not a name",), "docker.io/library/web:1"),
    ],
)
def test_a_status_has_the_requested_name_or_the_first_tag(requested: tuple[str, ...], name: str) -> None:
    tags = ("docker.io/library/web:1", "docker.io/library/web:2")
    image = Image("sha256:" + "a" * 64, tags, ("docker.io/library/web@sha256:" + "b" * 64,))
    assert image.reported_name(*requested) == name


def test_an_image_without_tags_is_named_by_its_digest_or_its_id() -> None:
    assert Image("sha256:a", (), ("r/w@sha256:b",)).reported_name("w") == "r/w@sha256:b"
    assert Image("sha256:a").reported_name("w") == "sha256:a"


def test_a_link_out_of_an_image_does_not_read_the_host(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (tmp_path / "passwd").write_text("spy:x:5:5::/:\n")
    (root / "etc/passwd").symlink_to("../../passwd")
    assert account_file(root, "etc/passwd") == ""
    (root / "passwd").write_text("me")
    assert account_file(root, "etc/passwd") == "me", "its root is where it ends"


@pytest.mark.parametrize("kind", ["folder", "loop", "nothing"])
def test_a_file_that_is_not_regular_is_ignored(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "passwd"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to("passwd")
    assert account_file(tmp_path, "passwd") == ""


def test_a_pipe_instead_of_a_passwd_or_group_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "group").symlink_to("pipe")
    with pytest.raises(InvalidRequest, match="/group is a pipe or device"):
        account_file(tmp_path, "group")


def test_an_oversized_passwd_or_group_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_bytes(b"x" * ((4 << 20) + 1))
    with pytest.raises(InvalidRequest, match="/passwd exceeds 4194304 bytes"):
        account_file(tmp_path, "passwd")
