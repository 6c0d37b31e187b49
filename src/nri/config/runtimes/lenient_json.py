"""JSON as people publish it: comments, missing and extra commas, equals signs, each reported with its line and mended.

Rules: pure; only text is changed, never a line number; what is none of these mistakes is the parser's own ConfigError.
Next: `nri.config.runtimes.isulad`, whose published samples have all of them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from nri.config.runtimes.reading import Kind, Remark
from nri.config.source import Source
from nri.config.syntax import parse_text

__all__ = ["parse"]

#: A text in quotes, which may hold anything, or a comment up to the end of its line.
_PARTS = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?:#|//)[^\n]*')
_MOST_MISTAKES = 100


def parse(source: Source) -> tuple[Any, Source, list[Remark]]:
    """The values, the mended text, and a remark on each mistake. ConfigError for what cannot be mended."""
    remarks = [
        Remark(Kind.COMMENT, f"{source.name}:{source.text.count(chr(10), 0, found.start()) + 1}")
        for found in _PARTS.finditer(source.text)
        if not found[1]
    ]
    text = _PARTS.sub(lambda found: found[1] or "", source.text)
    for _ in range(_MOST_MISTAKES):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            mended = _mend(text, error)
            if mended is None:
                break
            line, column = text.count("\n", 0, mended.at) + 1, mended.at - text.rfind("\n", 0, mended.at)
            reason = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} in column {column}"
            remarks.append(Remark(mended.kind, f"{source.name}:{line}", {"reason": reason}))
            text = mended.text
        except (RecursionError, ValueError):
            break  # the parser says it better
        else:
            break
    plain = Source(source.name, text, "json")
    return parse_text(plain), plain, remarks


class _Mended(NamedTuple):
    """A text without its first mistake, which one that was, and where."""

    text: str
    kind: Kind
    at: int


def _mend(text: str, error: json.JSONDecodeError) -> _Mended | None:
    """The text without its first mistake; None if that cannot be mended."""
    before, after = text[: error.pos], text[error.pos :]
    if "',' delimiter" in error.msg and after[:1] == '"':
        mended = f"{before.rstrip()},{before[len(before.rstrip()) :]}{after}"
        return _Mended(mended, Kind.MISSING_COMMA, error.pos)
    if "':' delimiter" in error.msg and after[:1] == "=":
        return _Mended(f"{before}:{after[1:]}", Kind.EQUALS_SIGN, error.pos)
    extra = re.search(r",(\s*)$", before if after[:1] in "}]" else before + after[:1])
    if extra and re.match(r",?\s*[}\]]", after):
        end = extra.start()  # Pythons differ in whether they point to the comma or behind it
        return _Mended(f"{text[:end]} {text[end + 1 :]}", Kind.EXTRA_COMMA, end)
    return None
