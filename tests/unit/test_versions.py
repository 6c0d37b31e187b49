"""Versions of runtimes and their NRI versions."""

import importlib

import pytest

from nri.versions import RUNTIMES, infer_nri_version, parse_version, version_at_least


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("v1.7.9", "v1.7.10"),
        ("1.2.3", "v1.2.4"),
        ("v0.3.1-dev", "v0.3.1"),
        ("v1.0.0-alpha", "v1.0.0-alpha.1"),
        ("v1.0.0-alpha.1", "v1.0.0-beta"),
        ("v1.0.0-rc.2", "v1.0.0-rc.11"),
        ("v1.0.0-rc.1", "v1.0.0-k3s1"),
        ("v1.0.0-rc.1-k3s2", "v1.0.0-rc.2-k3s1"),
        ("v1.2.4-0.20240102030405-0123456789ab", "v1.2.4"),
        ("2.0.0~rc1", "2.0.0"),
        ("2.0.0~rc1-1", "2.0.0~rc2-1"),
        ("v2", "v2.0.1"),
    ],
)
def test_versions_compare_as_semantic_versions_do(older: str, newer: str) -> None:
    assert not version_at_least(older, newer)
    assert version_at_least(newer, older)


@pytest.mark.parametrize(
    "same",
    [
        "v1.7.24", "1.7.24~ds1", "1.7.24~ds1-6+deb13u1", "1.7.24+unknown", "v1.7.24-12-g0123abc.m", " 1.7.24\n",
        "v1.7.24-k3s1", "v1.7.24-rke2r1", "1.7.24-0ubuntu1~24.04.2", "1.7.24-1.el9", "1.7.24-1.rhaos4.21",
        "1.7.24-r1", "1.7.24-bottlerocket", "1.7.24-1~bpo12+1", "1.7.24-unheard.of", "1.7.24-develop",
    ],
)  # fmt: skip
def test_suffixes_of_distributions_and_git_are_ignored(same: str) -> None:
    assert parse_version(same) == parse_version("1.7.24")


@pytest.mark.parametrize("text", ["", "v", "unknown", "(devel)", "1.2.3.4", "1.x.2", "1.2.3-", "१.2.3", "1" * 5000])
def test_an_invalid_version_is_none_and_below_every_version(text: str) -> None:
    assert parse_version(text) is None
    assert not version_at_least(text, "v0.0.0")


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("containerd", "v1.6.30", ""),
        ("containerd", "v1.7.0", "v0.3.0"),
        ("containerd", "v1.7.6", "v0.3.0"),
        ("containerd", "v1.7.13", "v0.4.0"),
        ("containerd", "v1.7.15", "v0.6.0"),
        ("containerd", "1.7.24~ds1", "v0.6.1"),
        ("containerd", "v1.7.30", "v0.8.0"),
        ("containerd", "2.1.9+unknown", "v0.8.0"),
        ("containerd", "v2.2.0-rc.1", "v0.8.0"),
        ("containerd", "v2.2.0", "v0.10.0"),
        ("containerd", "v2.2.0-3-gabcdef0.m", "v0.10.0"),
        ("containerd", "v2.3.0", "v0.11.0"),
        ("containerd", "v2.2.0-k3s1", "v0.10.0"),
        ("cri-o", "1.34.0-1.rhaos4.21", "v0.10.0"),
        ("cri-o", "1.26.1", "v0.2.0"),
        ("cri-o", "1.26.3", "v0.3.0"),
        ("cri-o", "1.26.9", "v0.3.1-dev"),
        ("cri-o", "1.27.0", "v0.3.0"),
        ("cri-o", "v1.28.4", "v0.3.1-dev"),
        ("cri-o", "1.29.1", "v0.5.0"),
        ("cri-o", "1.30.2", "v0.6.0"),
        ("cri-o", "1.31.0", "v0.6.1"),
        ("cri-o", "1.32.7", "v0.9.0"),
        ("cri-o", "1.33.1", "v0.9.1-dev"),
        ("cri-o", "1.34.9", "v0.10.0"),
        ("cri-o", "1.35.0", "v0.11.0"),
        ("isulad", "2.1.5", ""),
        ("containerd", "what", ""),
    ],
)
def test_the_nri_version_of_a_release_is_inferred(name: str, version: str, expected: str) -> None:
    assert infer_nri_version(name, version) == expected


@pytest.mark.parametrize("messages", ["", "(devel)", "0.0.0-unknown"])
def test_a_missing_nri_version_is_inferred_from_the_messages(messages: str) -> None:
    assert infer_nri_version("containerd", "v2.2.1", messages) == "v0.11.0"


def test_a_reported_nri_version_takes_precedence() -> None:
    assert infer_nri_version("containerd", "v1.7.0", "v0.12.2") == "v0.12.2"


@pytest.mark.parametrize("name", RUNTIMES)
def test_the_table_is_in_ascending_order(name: str) -> None:
    releases = [parse_version(release) for release, _ in RUNTIMES[name]]
    assert None not in releases
    assert releases == sorted(releases)


def test_scripts_can_import_the_earlier_name_of_the_module() -> None:
    assert importlib.import_module("nri.api.versions").infer_nri_version is infer_nri_version
