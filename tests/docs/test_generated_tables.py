"""Generated tables of the documentation are up to date."""

from pathlib import Path

import pytest

from tools import generate_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if "<!-- generated:" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_tables_of_the_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generate_docs.fill(text) == text, f"{page.name} is out of date, run: python tools/generate_docs.py"


def test_every_table_is_on_a_page() -> None:
    shown = {match["name"] for page in PAGES for match in generate_docs.REGION.finditer(page.read_text("utf-8"))}
    assert shown == set(generate_docs.REGIONS)
