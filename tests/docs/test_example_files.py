"""A file on a page under the name of a file in examples/ equals that file."""

from pathlib import Path

import pytest

from tests.support.pages import read_blocks

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [
    (page, block.action.removeprefix("file="), block)
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])
    for block in read_blocks(page)
    if block.action.startswith("file=") and (ROOT / "examples" / block.action.removeprefix("file=")).exists()
]


@pytest.mark.parametrize(("page", "name", "block"), SHOWN, ids=[f"{page.stem}-{name}" for page, name, _ in SHOWN])
def test_the_page_shows_the_unchanged_example(page: Path, name: str, block) -> None:
    assert block.text == (ROOT / "examples" / name).read_text("utf-8"), f"{page.name}:{block.line} and examples/{name}"
