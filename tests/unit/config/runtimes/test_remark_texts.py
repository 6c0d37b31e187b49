"""Every kind of remark has words; those of the doctor's findings are tested with it."""

from nri.config.runtimes.reading import Kind, Remark
from nri.config.runtimes.remark_texts import texts_of

PARTIES = dict.fromkeys(("reason", "key", "suggestion", "right", "table", "path", "first", "lost", "value"), "a party")


def test_every_kind_has_a_sentence_and_a_level() -> None:
    for kind in Kind:
        words = texts_of("isulad", Remark(kind, "/f", {**PARTIES, "seconds": 5.0, "type": bool}))
        assert words.what, kind
        assert words.level in {"problem", "warning", "note"}, kind
