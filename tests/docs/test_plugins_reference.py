"""The page of bundled plugins is complete, and each README names all flags, annotations and keys."""

import re
import sys
from pathlib import Path

import pytest

from nri.plugins.registry import describe, registered

DOCS = Path(__file__).resolve().parents[2] / "docs"
BUNDLED = [entry for entry in registered() if entry.value.startswith("nri.plugins.")]
FOLDERS = sorted(path.parent for path in (DOCS.parent / "src/nri/plugins").glob("*/plugin.py"))


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(DOCS))
    import plugins_reference

    yield plugins_reference.reference()
    sys.modules.pop("plugins_reference", None)


def test_every_plugin_has_a_row_and_a_section(text: str) -> None:
    for entry in BUNDLED:
        assert f"\n| [{entry.name}](#{entry.name}) | " in text
        assert f"\n## {entry.name}\n" in text


def test_links_of_readmes_work_on_the_page(text: str) -> None:
    assert "](cli.md)" in text
    assert "](../../../../" not in text


def test_the_page_includes_the_generated_reference() -> None:
    assert "<!-- bundled plugins -->" in (DOCS / "reference/plugins.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", BUNDLED, ids=[entry.name for entry in BUNDLED])
def test_a_readme_names_every_flag_annotation_and_key(entry) -> None:
    plugin = describe(entry)
    assert plugin["readme"], f"{entry.name} has no README.md"
    readme = Path(plugin["readme"]).read_text(encoding="utf-8")
    names = [flag.split()[0].lstrip("-") for flag in plugin["flags"]]
    names += [key.partition("/")[0] for key in plugin["annotations"]]
    names += [part for row in plugin["configuration"] for part in re.split(r"\W+", row["key"]) if part]
    assert sorted({name for name in names if name not in readme}) == []


def test_every_folder_of_a_plugin_is_registered_under_its_name() -> None:
    registered_as = {entry.module: entry.name for entry in BUNDLED}
    expected = {f"nri.plugins.{folder.name}.plugin": folder.name.replace("_", "-") for folder in FOLDERS}
    assert registered_as == expected
