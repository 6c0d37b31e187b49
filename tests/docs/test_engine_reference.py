"""The page of the engine's settings is made from the classes, and is complete."""

import sys
from pathlib import Path

import pytest

from nri.engine.config import config_keys, load_config
from nri.engine.network.configuration import parse_network
from tests.support.pages import read_blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(DOCS))
    import engine_reference

    yield engine_reference.reference()
    sys.modules.pop("engine_reference", None)


def test_every_key_stands_in_the_section_of_its_table(text: str) -> None:
    for key in config_keys():
        table, _, name = key.key.rpartition(".")
        title = f"[[{table[:-2]}]]" if table.endswith("[]") else f"[{table}]" if table else "At the top"
        section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
        assert f"| `{name}` |" in section, f"{key.key} is not below {title}"
        assert key.meaning.replace("|", "\\|").replace("<", "&lt;") in section


def test_the_files_that_the_guide_shows_can_be_used(tmp_path: Path) -> None:
    blocks = read_blocks(DOCS / "howto/engine.md")
    (network,) = [block for block in blocks if block.language == "json" and "cniVersion" in block.text]
    assert parse_network(network.text).name == "pods"
    settings = [block for block in blocks if block.language == "toml"]
    assert len(settings) == 2
    for number, block in enumerate(settings):
        path = tmp_path / f"{number}.toml"
        path.write_text(block.text)
        assert load_config(path, environment={}).origins


def test_no_table_has_two_sections(text: str) -> None:
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(titles) == len(set(titles))


def test_the_page_asks_for_it() -> None:
    assert "<!-- engine settings -->" in (DOCS / "reference/engine.md").read_text(encoding="utf-8")
