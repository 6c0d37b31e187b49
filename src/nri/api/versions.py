"""Semantic versions, and the NRI versions of runtimes that do not send theirs (before 0.12).

The table follows the runtimes' go.mod files, release by release.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    #: Numbers, then pre-release: (1,) without one, which sorts last, else (0, its parts).
    Version = tuple[tuple[int, int, int], tuple[object, ...]]

__all__ = ["infer_nri_version", "parse_version", "version_at_least"]

#: The version that a runtime or plugin reports when it does not know its own version.
UNKNOWN: Final = ("", "(devel)", "0.0.0-unknown")

#: Runtime -> (its first release, NRI version in it), ascending.
RUNTIMES: Final = {
    "containerd": (
        ("v1.7.0", "v0.3.0"),
        ("v1.7.7", "v0.4.0"),
        ("v1.7.14", "v0.6.0"),
        ("v1.7.16", "v0.6.1"),
        ("v1.7.26", "v0.8.0"),
        ("v2.2.0", "v0.10.0"),
        ("v2.2.1", "v0.11.0"),
    ),
    "cri-o": (
        ("v1.26.0", "v0.2.0"),
        ("v1.26.2", "v0.3.0"),
        ("v1.26.4", "v0.3.1-dev"),
        ("v1.27.0", "v0.3.0"),
        ("v1.27.1", "v0.3.1-dev"),
        ("v1.29.0", "v0.5.0"),
        ("v1.29.2", "v0.6.0"),
        ("v1.31.0", "v0.6.1"),
        ("v1.32.0", "v0.9.0"),
        ("v1.33.0", "v0.9.1-dev"),
        ("v1.34.0", "v0.10.0"),
        ("v1.35.0", "v0.11.0"),
    ),
}


def parse_version(text: str) -> Version | None:
    """Parse a version to a value that sorts by the rules of semantic versions; None for any other text.

    Accepts versions of distributions: the leading `v`, minor and patch number may be missing, Debian's `1.7.24~ds1` is
    1.7.24 and its `2.0.0~rc1` is a pre-release. A suffix of `git describe` (`-12-gdeadbeef`, `-12-gdeadbeef.m`) is
    removed: it means a later commit, and would be read as an earlier pre-release.
    """
    core = _without_git(text.strip().removeprefix("v").partition("+")[0])
    upstream, tilde, repack = core.partition("~")
    if tilde and not repack.startswith(("ds", "dfsg")):
        upstream = f"{upstream}-{repack}"
    numbers, dash, pre_release = upstream.partition("-")
    parts = numbers.split(".")
    identifiers = pre_release.split(".") if dash else []
    if len(parts) > 3 or not all(map(_is_number, parts)) or not all(identifiers):
        return None
    major, minor, patch = map(int, [*parts, "0", "0"][:3])
    # In semantic versions numbers sort before words, and a longer list after its own prefix.
    order = tuple((0, int(word), "") if _is_number(word) else (1, 0, word) for word in identifiers)
    return (major, minor, patch), ((0, order) if dash else (1,))


def version_at_least(version: str, first: str) -> bool:
    """Whether `version` is `first` or later. False for texts that are not versions."""
    present, other = parse_version(version), parse_version(first)
    return present is not None and other is not None and present >= other


def infer_nri_version(runtime_name: str, runtime_version: str, nri_version: str = "") -> str:
    """The NRI version of a runtime: the one that it sent, else that of its release, else "" if unknown.

    Args:
        runtime_name: the runtime's own name, `containerd` or `cri-o`.
        runtime_version: its version, with or without `v`.
        nri_version: the version that it sent; runtimes before 0.12 send nothing.
    """
    if nri_version not in UNKNOWN:
        return nri_version
    if parse_version(runtime_version) is None:
        return ""
    releases = RUNTIMES.get(runtime_name, ())
    return next((nri for release, nri in reversed(releases) if version_at_least(runtime_version, release)), "")


def _is_number(text: str) -> bool:
    # Longer numbers are not versions, and Python refuses to read very long ones.
    return text.isascii() and text.isdigit() and len(text) <= 18


def _without_git(text: str) -> str:
    """Remove a suffix `-N-gSHA` or `-N-gSHA.m`."""
    head, _, commit = text.rpartition("-")
    base, dash, count = head.rpartition("-")
    sha = commit.removesuffix(".m")
    is_git = dash and _is_number(count) and sha[:1] == "g" and len(sha) > 4 and set(sha[1:]) <= set("0123456789abcdef")
    return base if is_git else text
