"""Patterns of imported files, as Go matches them."""

from __future__ import annotations

import pytest

from nri.config.runtimes.containerd.glob import BadPattern, clean, glob
from tests.support.memory_tree import MemoryTree

NAMES = ("10.toml", "9.toml", "A.toml", "Z.toml", "_.toml", "a.toml", "b.toml", ".h.toml", "README", "a]b.toml")
TREE = MemoryTree(
    {f"/d/{name}": b"" for name in NAMES} | {"/d/sub/x.toml": b"", "/e/y.toml": b""}, {"/d/link.toml": "/none"}
)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("/d/?.toml", ["9.toml", "A.toml", "Z.toml", "_.toml", "a.toml", "b.toml"]),
        ("/d/[a-b]*.toml", ["a.toml", "a]b.toml", "b.toml"]),
        ("/d/[^a]*.toml", [".h.toml", "10.toml", "9.toml", "A.toml", "Z.toml", "_.toml", "b.toml", "link.toml"]),
        ("/d/[!b]*.toml", ["b.toml"]),
        ("/d/[b-a]*", []),
        ("/d/a\\]*", ["a]b.toml"]),
        ("/d/l*", ["link.toml"]),
        ("/none/*", []),
        ("/d/README/*", []),
    ],
)
def test_names_of_one_folder_are_sorted_by_bytes(pattern: str, names: list[str]) -> None:
    assert glob(TREE, pattern) == [f"/d/{name}" for name in names]


def test_two_stars_mean_one_and_folders_may_be_patterns() -> None:
    assert glob(TREE, "/d/**/*.toml") == ["/d/sub/x.toml"]
    assert glob(TREE, "/[de]/[xy]*") == ["/e/y.toml"]
    assert glob(TREE, "/e/y.toml") == ["/e/y.toml"]


@pytest.mark.parametrize("pattern", ["/d/[*", "/d/[]*", "/d/[a-]*", "/d/[a", "/d/*\\", "/d/[\\", "/d/[^]*"])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        glob(TREE, pattern)


@pytest.mark.parametrize(("path", "result"), [("", "."), ("//a", "/a"), ("a/../b/./c", "b/c"), ("/..", "/")])
def test_a_path_is_cleaned_like_in_go(path: str, result: str) -> None:
    assert clean(path) == result
