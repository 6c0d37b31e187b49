"""The page of the engine's settings is generated and complete."""

from pathlib import Path

import pytest

from nri.engine.config import ENGINE_SETTINGS
from nri.engine.network.configuration import parse_network
from tests.support.pages import read_blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def text() -> str:
    return (DOCS / "reference/engine.md").read_text(encoding="utf-8")


def test_every_key_is_in_the_section_of_its_table(text: str) -> None:
    for key in ENGINE_SETTINGS.known_keys():
        table, _, name = key.key.rpartition(".")
        title = f"[[{table[:-2]}]]" if table.endswith("[]") else f"[{table}]" if table else "At the top"
        section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
        assert f"| `{name}` |" in section, f"{key.key} is not below {title}"
        assert key.meaning.replace("|", "\\|").replace("<", "&lt;") in section


def test_files_on_the_guide_are_valid(tmp_path: Path) -> None:
    blocks = read_blocks(DOCS / "howto/engine.md")
    (network,) = [block for block in blocks if block.language == "json" and "cniVersion" in block.text]
    assert parse_network(network.text).name == "pods"
    settings = [block for block in blocks if block.language == "toml"]
    assert len(settings) >= 7
    for number, block in enumerate(settings):
        path = tmp_path / f"{number}.toml"
        path.write_text(block.text)
        assert ENGINE_SETTINGS.load(path, environment={}).origins


def test_every_table_has_one_section(text: str) -> None:
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(titles) == len(set(titles))
