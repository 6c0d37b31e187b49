"""The versions in a bug report."""

from __future__ import annotations

from importlib import metadata

import google.protobuf
import pytest

from nri.cli.support.versions import versions


def test_every_version_is_a_non_empty_string() -> None:
    version_by_name = versions()
    assert isinstance(version_by_name.pop("compiled"), bool)
    assert all(isinstance(value, str) and value for value in version_by_name.values())


def test_versions_equal_the_running_packages() -> None:
    version_by_name = versions()
    assert version_by_name["protobuf"] == google.protobuf.__version__
    assert version_by_name["nri"] == metadata.version("nri")


def test_a_checkout_that_is_not_installed_has_a_marked_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert versions()["nri"] == "unknown"
