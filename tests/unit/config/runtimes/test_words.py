"""Every kind of remark has words; those of the doctor's findings are tested with it."""

import pytest

from nri.config.runtimes.reading import Kind, Remark
from nri.config.runtimes.words import words_of

PARTIES = dict.fromkeys(("reason", "key", "suggestion", "right", "table", "path", "first", "lost", "value"), "a party")


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_sentence_and_a_level(kind: Kind) -> None:
    words = words_of("isulad", Remark(kind, "/f", {**PARTIES, "seconds": 5.0, "type": bool}))
    assert words.what
    assert words.level in {"problem", "warning", "note"}
