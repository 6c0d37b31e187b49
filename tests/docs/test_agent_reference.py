"""The page of the agent's settings is generated and complete, and the settings of the guides are valid."""

from pathlib import Path

import pytest

from nri.agent.koordinator.profile import PROFILE
from nri.agent.settings import AGENT_SETTINGS
from tests.support.pages import read_blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def text() -> str:
    return (DOCS / "reference/agent.md").read_text(encoding="utf-8")


def test_every_key_is_in_the_section_of_its_table(text: str) -> None:
    for key in AGENT_SETTINGS.known_keys():
        table, _, name = key.key.rpartition(".")
        section = text.partition(f"## {f'[{table}]' if table else 'At the top'}\n")[2].partition("\n## ")[0]
        assert f"| `{name}` |" in section, f"{key.key} is not below {table}"
        assert key.meaning.replace("|", "\\|").replace("<", "&lt;") in section


@pytest.mark.parametrize("page", ["howto/agent.md", "reference/agent.md"])
def test_settings_on_pages_are_valid(page: str, tmp_path: Path) -> None:
    blocks = [block for block in read_blocks(DOCS / page) if block.language == "toml"]
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.toml"
        path.write_text(block.text)
        assert AGENT_SETTINGS.load(path, environment={}).origins


def test_every_gate_is_listed_with_its_default() -> None:
    lines = (DOCS / "concepts/koordinator.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and " | o" in line]
    listed = {(name.strip("`"), row[1] == "on") for row in rows for name in row[0].split(", ")}
    gates = {(row.name, row.default) for row in (*PROFILE.hooks, *PROFILE.strategies)}
    assert gates | {(name, default) for name, (default, _) in PROFILE.switches.items()} <= listed
