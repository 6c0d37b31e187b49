"""Semantic versions with the suffixes of distributions, and the NRI version of a runtime.

Runtimes with NRI before 0.12 do not send their NRI version; it is inferred from their release, by the go.mod files of
all releases.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    #: The numbers, then (1,) for a release, which sorts last, or (0, parts) for a pre-release.
    Version = tuple[tuple[int, int, int], tuple[object, ...]]

MAX_DIGITS: Final = 18
#: The numbers, and the suffix of a distribution. A version does not have a fourth number.
_VERSION: Final = re.compile(
    rf"v?(?P<major>[0-9]{{1,{MAX_DIGITS}}})(?:\.(?P<minor>[0-9]{{1,{MAX_DIGITS}}}))?"
    rf"(?:\.(?P<patch>[0-9]{{1,{MAX_DIGITS}}}))?(?P<suffix>(?:[-~+].+)?)",
    re.DOTALL,
)
_PRE_RELEASE: Final = re.compile(r"[-~](?P<name>(?:alpha|beta|rc|dev|pre)(?:[.-]?[0-9]{1,9})*)(?![a-z])", re.IGNORECASE)
_GO_COMMIT: Final = re.compile(r"-(?P<name>(?:[a-z0-9]+\.)*[0-9]{14})-[0-9a-f]{12}")

#: The version that a runtime or plugin reports when it does not know its own version.
UNKNOWN: Final = ("", "(devel)", "0.0.0-unknown")

#: The first release with each NRI version, ascending, by runtime.
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
    """Convert a version to a value that compares like semantic versions. Returns None if the text is not a version.

    The `v` may be missing. The minor and the patch number may be missing and are then 0. Only a suffix with the name of
    a pre-release makes a pre-release. All other suffixes are a distribution's builds of the release:

    ======================================  =====================================
    `v2.2.0-k3s1`, `v1.7.26-rke2r1`         k3s, rke2
    `2.2.0-0ubuntu1~24.04.2`, `2.1.4-1`     Ubuntu, Debian
    `1.7.24~ds1-6+deb13u1`, `2.1.9+ds1`     Debian, with files left out
    `2.2.0-1.el9`, `1.34.0-1.rhaos4.21`     Red Hat, OpenShift
    `2.1.5-r1`, `2.0.2-bottlerocket`        Alpine, Bottlerocket
    `1.7.24-12-gdeadbeef.m`                 a commit after the release (`git describe`)
    `2.2.0-rc.1`, `2.0.0~rc1-1`             a pre-release: alpha, beta, rc, dev, pre
    `1.2.4-0.20240102030405-0123456789ab`   a pre-release: Go's name of a commit before the release
    ======================================  =====================================
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch = (int(match[name] or 0) for name in ("major", "minor", "patch"))
    pre_release = _GO_COMMIT.match(match["suffix"]) or _PRE_RELEASE.match(match["suffix"])
    if pre_release is None:
        return (major, minor, patch), (1,)
    # By the rules of semantic versions numbers sort before words, and a longer list after its own beginning.
    order = tuple(
        (0, int(word), "") if _is_number(word) else (1, 0, word)
        for word in re.findall(r"\d+|[a-z]+", pre_release["name"].lower())
    )
    return (major, minor, patch), (0, order)


def version_at_least(version: str, first: str) -> bool:
    """Whether `version` is `first` or later. Returns False if it is not a version."""
    parsed, bound = parse_version(version), parse_version(first)
    return parsed is not None and bound is not None and parsed >= bound


def infer_nri_version(runtime_name: str, runtime_version: str, nri_version: str = "") -> str:
    """Return the NRI version that a runtime sent, else the NRI version of its release, else "" if that is not known.

    Args:
        runtime_name: the runtime's own name, `containerd` or `cri-o`.
        runtime_version: the runtime's version, with or without `v`.
        nri_version: the NRI version that the runtime sent; runtimes with NRI before 0.12 send nothing.
    """
    if nri_version not in UNKNOWN:
        return nri_version
    if parse_version(runtime_version) is None:
        return ""
    releases = RUNTIMES.get(runtime_name, ())
    return next((nri for release, nri in reversed(releases) if version_at_least(runtime_version, release)), "")


def _is_number(text: str) -> bool:
    # Longer numbers are not versions, and Python refuses to read the really long ones.
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
