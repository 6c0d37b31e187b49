"""The policies in the guide are valid."""

from pathlib import Path

import pytest

from nri.config import Source
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.policy import resolve
from tests.support.pages import read_blocks

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "policy.md"
BLOCKS = [block for block in read_blocks(PAGE) if block.language == "toml"]


@pytest.mark.parametrize("block", BLOCKS, ids=[f"line{block.line}" for block in BLOCKS])
def test_every_policy_in_the_guide_is_valid(block):
    tables = policy_file.parse(Source(str(PAGE), block.text, "toml"))
    assert [resolve(table) for table in tables.values()], "the policy names no plugin"


def test_the_guide_has_a_row_for_every_key_with_its_default():
    rows = [line.split("|")[1].strip(" `") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == list(resolve(policy_file.Table()).to_json()), "a key is not in the guide, or out of order"
