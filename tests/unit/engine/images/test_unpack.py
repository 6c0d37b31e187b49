"""Manifests chosen for this machine, and the size of trees."""

import os
from pathlib import Path

import pytest

from nri.engine.images.unpack import choose_platform, tree_usage
from nri.engine.support.errors import InvalidRequest

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def row(digest: str, architecture: str, system: str = "linux") -> dict[str, object]:
    return {"digest": digest, "platform": {"os": system, "architecture": architecture}}


def test_this_machines_image_is_chosen() -> None:
    manifest = {"manifests": [row("a", "alien"), row("w", ARCHITECTURE, "windows"), row("b", ARCHITECTURE)]}
    assert choose_platform(manifest, "x") == "b"
    assert choose_platform({"config": {}}, "x") == ""


def test_an_image_for_other_machines_says_for_which() -> None:
    with pytest.raises(InvalidRequest, match=r"x is not for linux/\w+; there is linux/alien"):
        choose_platform({"manifests": [row("a", "alien")]}, "x")
    with pytest.raises(InvalidRequest, match="schema 1"):
        choose_platform({"schemaVersion": 1}, "x")


def test_hard_links_count_once_and_links_are_not_followed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"x" * 50_000)
    os.link(tree / "a", tree / "b")
    (tree / "out").symlink_to("/usr")
    usage = tree_usage(tree)
    assert 50_000 <= usage.size_bytes < 100_000
    assert usage.inodes == 3
    assert tree_usage(tmp_path / "none") == (0, 0)
