"""Texts for the remarks that reading a runtime's configuration gives: level, sentence and next step.

A table by the kind of remark, with rows of their own where a runtime differs. Names in braces are the remark's
details. The doctor and the engine print them. Next: `nri.config.runtimes.reading`, which says what the kinds are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri.config.runtimes.reading import Kind
from nri.config.runtimes.registry import RUNTIMES

if TYPE_CHECKING:
    from nri.config.runtimes.reading import Remark


class Texts(NamedTuple):
    """The sentence, the next step, and the level: problem, warning or note."""

    what: str
    next: str = ""
    level: str = "problem"


_TYPES = {bool: "true or false", str: "text in quotes", int: "a whole number", list: "a list"}
_VERSION = (
    "write version = 2 (containerd 1.x) or version = 3 at the top; `containerd config migrate` prints a whole file"
)

_TEXTS = {
    Kind.DENIED: Texts("{reason}", "run the doctor as root"),
    Kind.UNREADABLE: Texts("{reason}"),
    Kind.INVALID: Texts("{reason}", "the runtime will not start with it"),
    Kind.MISSING_COMMA: Texts("{reason}", "look at the end of the line before: is a comma missing?"),
    Kind.EQUALS_SIGN: Texts("{reason}", "write a colon instead of the equals sign"),
    Kind.EXTRA_COMMA: Texts("a comma after the last value, which JSON does not have", "take the comma out"),
    Kind.NO_TABLE: Texts("not a table of keys"),
    Kind.COMMENT: Texts("a comment, which JSON does not have", "take the comment out"),
    Kind.UNKNOWN_KEY: Texts('unknown key "{key}"; {runtime} ignores it', "{suggestion}"),
    Kind.FOREIGN_KEY: Texts('"{key}" is containerd\'s name, and {runtime} does not know it', "write {right}"),
    Kind.OLD_SPELLING: Texts("an old spelling of the key", 'write "{right}"', "warning"),
    Kind.FIXED_SOCKET: Texts(
        "{runtime} takes no other socket path", "take it out; the socket is /var/run/nri/nri.sock"
    ),
    Kind.MISPLACED: Texts('"{key}" is at the wrong level and has no effect', "move it to [{table}]"),
    Kind.UNKNOWN_TABLE: Texts('{runtime} has no table "{table}"', "the table is [{right}]"),
    Kind.UNVERSIONED: Texts("without a version line containerd 1.x does not know this table", _VERSION),
    Kind.OLD_TABLE: Texts("containerd 2.x does not know this table, 1.x does without a version line", _VERSION),
    Kind.WRONG_TYPE: Texts("must be {wanted}, not {value!r}"),
    Kind.NO_DURATION: Texts("{reason}", "{suggestion}"),
    Kind.NO_SECONDS: Texts('must be a whole number of seconds, not "{value}"', "write {seconds:.0f}"),
    Kind.MISSING_IMPORT: Texts(
        'the imported file "{path}" does not exist',
        "make the file, or take it out of the list: containerd does not start like this",
    ),
    Kind.NOT_IMPORTED: Texts(
        "it configures NRI, but nothing imports it",
        'add imports = ["/etc/containerd/conf.d/*.toml"] to /etc/containerd/config.toml',
    ),
    Kind.REPLACED: Texts(
        "containerd 1.x lets this table replace the one in {first}: {lost} go back to their defaults",
        "keep the whole NRI table in one file",
    ),
    Kind.RELEASE_DECIDES: Texts(
        "NRI is off by default in containerd 1.7, on since 2.0; this file leaves it open",
        'say it: disable = false in [plugins."io.containerd.nri.v1.nri"]',
        "warning",
    ),
}
_OWN_TEXTS = {
    ("cri-o", Kind.RELEASE_DECIDES): Texts(
        "enable_nri is not set: on by default today, off in old releases",
        "say it: enable_nri = true in [crio.nri]",
        "note",
    ),
    ("isulad", Kind.DENIED): Texts("{reason}"),
    ("isulad", Kind.INVALID): Texts("{reason}"),
    ("isulad", Kind.MISPLACED): Texts(
        '"{key}" is at the wrong level and has no effect', "move it to the top level of the file"
    ),
}


def texts_of(runtime: str, remark: Remark) -> Texts:
    """Put one remark on a runtime's configuration into words."""
    words = _OWN_TEXTS.get((runtime, remark.kind), _TEXTS[remark.kind])
    parties = {
        **remark.details,
        "runtime": next(row.title for row in RUNTIMES if row.name == runtime),
        "wanted": _TYPES.get(remark.details.get("type", object), ""),
    }
    return Texts(words.what.format(**parties), words.next.format(**parties), words.level)
