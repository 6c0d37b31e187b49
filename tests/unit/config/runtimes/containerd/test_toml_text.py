"""TOML in the dialects of containerd's releases; the verdicts are those of containerd 1.7.24, 2.1.9 and 2.4.2."""

from __future__ import annotations

import pytest

from nri.config.runtimes.containerd.toml_text import Dialect, parse
from nri.errors import ConfigError

DIALECTS: tuple[Dialect, ...] = ("0.5", "1.0", "1.1")
PLACES = {
    "a byte order mark": (b"\xef\xbb\xbfa = 1\n", "yes no no"),
    "a carriage return alone": (b"a = 1\rb = 2\r", "yes no no"),
    "bytes in a comment": (b"# caf\xe9\na = 1\n", "yes no no"),
    "bytes in a text": (b'a = "\xe9"\n', "yes no no"),
    "a control character in a comment": (b"# \x01\na = 1\n", "yes no no"),
    "a leading zero": (b"a = 07\n", "yes no no"),
    "two leading zeros": (b"a = 007\n", "no no no"),
    "a signed number with zeros": (b"a = -01\n", "yes no no"),
    "a fraction with zeros": (b"a = 00.5\n", "yes no no"),
    "a header after dotted keys": (b"[t]\na.b = 1\n[t.a]\nc = 2\n", "yes no no"),
    "the same key again by a header": (b"[t]\na.b = 1\n[t.a]\nb = 2\n", "no no no"),
    "a table twice": (b"[t]\na = 1\n[t]\nb = 2\n", "no no no"),
    "a table twice in other quotes": (b"[t.'x']\na = 1\n[t.\"x\"]\nb = 2\n", "yes no no"),
    "a header that extends braces": (b"t = {a = 1}\n[t.b]\nc = 1\n", "no no no"),
    "a date alone": (b"a = 2024-05-01\n", "no yes yes"),
    "a date at the end": (b"a = 2024-05-01", "yes yes yes"),
    "a date with a comment": (b"a = 2024-05-01 # x\n", "yes yes yes"),
    "a date with t": (b"a = 2024-05-01t07:32:00Z\n", "no yes yes"),
    "a time": (b"a = 07:32:00\n", "yes yes yes"),
    "a time without seconds": (b"a = [07:32, 1979-05-27T07:32Z, 1979-05-27 07:32-01:00]\n", "no no yes"),
    "a line break in braces": (b"a = {\n b = 1\n}\n", "yes no yes"),
    "a comment in braces": (b"a = { # x\n b = 1 # y\n}\n", "yes no yes"),
    "a comma at the end of braces": (b"a = {b = 1, }\n", "no no yes"),
    "a comma alone in braces": (b"a = {,}\n", "no no no"),
    "an escape of TOML 1.1": (b'a = "\\e\\x41\\\\e"\n', "no no yes"),
    "an escaped slash": (b'a = "\\/"\n', "yes no no"),
    "half a character": (b'a = "\\ud800"\n', "yes no no"),
    "a number of 65 bits": (b"a = 9223372036854775808\n", "yes no no"),
    "a quote more at the end": (b'a = """x""""\n', "no yes yes"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_dialect_accepts_or_refuses_a_text(name: str) -> None:
    data, expected = PLACES[name]
    answers = []
    for dialect in DIALECTS:
        try:
            parse("/x.toml", data, dialect)
        except ConfigError:
            answers.append("no")
        else:
            answers.append("yes")
    assert " ".join(answers) == expected


def test_rewritten_texts_keep_their_values_and_lines() -> None:
    source, tree = parse("/x.toml", b'a = {\n b = "\\e",\n}\nc = 1\n', "1.1")
    assert tree == {"a": {"b": "\x1b"}, "c": 1}
    assert source.text.splitlines()[3] == "c = 1"
    assert parse("/x.toml", b"[[t]]\na = 07\n[[t]]\nb.c = 1\n[t.b]\nd = 2\n", "0.5")[1] == {
        "t": [{"a": 7}, {"b": {"c": 1, "d": 2}}]
    }


def test_a_refused_date_has_its_line() -> None:
    with pytest.raises(ConfigError, match=r"/x.toml:3: a date without a time"):
        parse("/x.toml", b"a = {\n}\nb = 2024-05-01\n", "0.5")
