"""Words for the remarks that reading a runtime's configuration gives: level, sentence and next step.

A table by the kind of remark, with rows of their own where a runtime differs. Names in braces are the remark's
details. The doctor and the engine print them. Next: `nri.config.runtimes.reading`, which says what the kinds are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri.config.runtimes.reading import Kind

if TYPE_CHECKING:
    from nri.config.runtimes.reading import Remark


class Words(NamedTuple):
    """The sentence, the next step, and the level: problem, warning or note."""

    what: str
    next: str = ""
    level: str = "problem"


_TITLES = {"containerd": "containerd", "cri-o": "CRI-O", "isulad": "iSulad"}
_TYPES = {bool: "true or false", str: "text in quotes", int: "a whole number", list: "a list"}
_VERSION = (
    "write version = 2 (containerd 1.x) or version = 3 at the top; `containerd config migrate` prints a whole file"
)

_WORDS = {
    Kind.DENIED: Words("{reason}", "run the doctor as root"),
    Kind.UNREADABLE: Words("{reason}"),
    Kind.INVALID: Words("{reason}", "the runtime will not start with it"),
    Kind.MISSING_COMMA: Words("{reason}", "look at the end of the line before: is a comma missing?"),
    Kind.EQUALS_SIGN: Words("{reason}", "write a colon instead of the equals sign"),
    Kind.EXTRA_COMMA: Words("a comma after the last value, which JSON does not have", "take the comma out"),
    Kind.NO_TABLE: Words("not a table of keys"),
    Kind.COMMENT: Words("a comment, which JSON does not have", "take the comment out"),
    Kind.UNKNOWN_KEY: Words('unknown key "{key}"; {runtime} ignores it', "{suggestion}"),
    Kind.FOREIGN_KEY: Words('"{key}" is containerd\'s name, and {runtime} does not know it', "write {right}"),
    Kind.OLD_SPELLING: Words("an old spelling of the key", 'write "{right}"', "warning"),
    Kind.FIXED_SOCKET: Words(
        "{runtime} takes no other socket path", "take it out; the socket is /var/run/nri/nri.sock"
    ),
    Kind.MISPLACED: Words('"{key}" is at the wrong level and has no effect', "move it to [{table}]"),
    Kind.UNKNOWN_TABLE: Words('{runtime} has no table "{table}"', "the table is [{right}]"),
    Kind.UNVERSIONED: Words("without a version line containerd 1.x does not know this table", _VERSION),
    Kind.OLD_TABLE: Words("containerd 2.x does not know this table, 1.x does without a version line", _VERSION),
    Kind.WRONG_TYPE: Words("must be {wanted}, not {value!r}"),
    Kind.NO_DURATION: Words("{reason}", "{suggestion}"),
    Kind.NO_SECONDS: Words('must be a whole number of seconds, not "{value}"', "write {seconds:.0f}"),
    Kind.MISSING_IMPORT: Words(
        'the imported file "{path}" does not exist',
        "make the file, or take it out of the list: containerd does not start like this",
    ),
    Kind.NOT_IMPORTED: Words(
        "it configures NRI, but nothing imports it",
        'add imports = ["/etc/containerd/conf.d/*.toml"] to /etc/containerd/config.toml',
    ),
    Kind.REPLACED: Words(
        "containerd 1.x lets this table replace the one in {first}: {lost} go back to their defaults",
        "keep the whole NRI table in one file",
    ),
    Kind.RELEASE_DECIDES: Words(
        "NRI is off by default in containerd 1.7, on since 2.0; this file leaves it open",
        'say it: disable = false in [plugins."io.containerd.nri.v1.nri"]',
        "warning",
    ),
}
_OWN_WORDS = {
    ("cri-o", Kind.RELEASE_DECIDES): Words(
        "enable_nri is not set: on by default today, off in old releases",
        "say it: enable_nri = true in [crio.nri]",
        "note",
    ),
    ("isulad", Kind.DENIED): Words("{reason}"),
    ("isulad", Kind.INVALID): Words("{reason}"),
    ("isulad", Kind.MISPLACED): Words(
        '"{key}" is at the wrong level and has no effect', "move it to the top level of the file"
    ),
}


def words_of(runtime: str, remark: Remark) -> Words:
    """Put one remark on a runtime's configuration into words."""
    words = _OWN_WORDS.get((runtime, remark.kind), _WORDS[remark.kind])
    parties = {
        **remark.details,
        "runtime": _TITLES[runtime],
        "wanted": _TYPES.get(remark.details.get("type", object), ""),
    }
    return Words(words.what.format(**parties), words.next.format(**parties), words.level)
