"""A plugin's project made of templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.errors import ConfigError, NriError
from nri.plugins.project.scaffold import FILES, TEMPLATES, fill, names_of, scaffold


def test_every_template_is_used() -> None:
    assert {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.txt")} == set(FILES)


def test_all_names_derive_from_the_plugins_name() -> None:
    names = names_of("pod-name", "30")
    assert (names["name"], names["module"], names["class"], names["Name"]) == (
        "pod-name",
        "pod_name",
        "PodName",
        "Pod name",
    )
    assert names["idx"] == "30"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Pod", "is not a valid name"),
        ("class", "is a keyword of Python"),
        ("json", "json.py would hide the module json"),
        ("nri", "nri.py would hide the module nri"),
    ],
)
def test_an_invalid_name_is_an_error(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        names_of(name, "10")
    assert reason in str(caught.value)


def test_unknown_markers_are_kept() -> None:
    assert fill("@name@ is in @system-service and @other@", {"name": "a"}) == "a is in @system-service and @other@"


def test_files_are_written_into_the_folder_and_listed(tmp_path: Path) -> None:
    paths = scaffold(tmp_path / "new", "pod-name", "30")
    assert len(paths) == len(FILES) + 1, "the wheel of nri comes along"
    assert all(Path(path).is_file() for path in paths)
    with pytest.raises(NriError, match="not an empty folder"):
        scaffold(tmp_path / "new", "pod-name", "30")
