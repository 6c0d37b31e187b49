"""The reference of the command line is generated from the verbs and complete."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(DOCS))
    import cli_reference

    yield cli_reference.reference()
    sys.modules.pop("cli_reference", None)


def test_every_verb_has_a_section_with_its_examples(text: str) -> None:
    from nri.cli.main import VERBS

    for verb in VERBS:
        section = text.partition(f"\n## nri {verb}\n")[2].partition("\n## ")[0]
        assert section, f"{verb} has no section"
        examples = (f"$ nri {verb}", f"$ sudo nri {verb}")
        assert any(example in section for example in examples), f"{verb} shows no example"


def test_the_page_includes_the_generated_reference() -> None:
    assert "<!-- command line -->" in (DOCS / "reference/cli.md").read_text(encoding="utf-8")
