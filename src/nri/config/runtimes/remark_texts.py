"""Texts for the remarks on a runtime's configuration: sentence, next step and level.

Names in braces are the remark's details. The doctor, config-manager and the engine print them.
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


_TYPES = {
    bool: "true or false", str: "text in quotes", int: "a whole number", float: "a number", list: "a list of texts",
    dict: "a table",
}  # fmt: skip
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
    Kind.UNVERSIONED: Texts(
        "containerd 1.7 does not know this table unless one of its files has version = 2, and ignores it", _VERSION
    ),
    Kind.OLD_TABLE: Texts(
        "containerd 2.x does not know this table, and ignores it; 1.7 reads it if no file has a version", _VERSION
    ),
    Kind.WRONG_TYPE: Texts("must be {wanted}, not {value!r}"),
    Kind.NO_DURATION: Texts("{reason}", "{suggestion}"),
    Kind.NO_SECONDS: Texts('must be a whole number of seconds, not "{value}"', "write {seconds:.0f}"),
    Kind.MISSING_IMPORT: Texts(
        'the imported file "{path}" does not exist',
        "make the file, or take it out of the list: containerd does not start like this",
    ),
    Kind.MISSING_FILE: Texts("the file does not exist", "{runtime} does not start without it"),
    Kind.BAD_PATTERN: Texts(
        'the pattern "{pattern}" is malformed', "close the bracket: {runtime} does not start like this"
    ),
    Kind.UNKNOWN_VERSION: Texts(
        "the configuration has version {version}, and this release of {runtime} knows versions up to {newest}: it does"
        " not start",
        "write the file in version {newest}: `containerd config default` prints one",
    ),
    Kind.NEWER_DROP_IN: Texts(
        "an imported file must not have a higher version than the main file in containerd 2.3: this one has {version},"
        " the main file {main}, and the daemon does not start",
        "write version = {main} here, or leave the line out",
    ),
    Kind.VERSION_CRASH: Texts(
        "{runtime} crashes at a file of version {version} after one of version {other}",
        "write the same version in all files",
    ),
    Kind.SHORT_NAME: Texts(
        'the plugin "{name}" must have its full name: {runtime} does not start like this',
        "write it as io.containerd.TYPE.VERSION.NAME (`ctr plugins ls`), such as io.containerd.grpc.v1.cri",
    ),
    Kind.SHORT_TABLE: Texts(
        'with version = 2 in any file [plugins."{name}"] must have the plugin\'s full name: containerd 1.7 does not'
        " start like this",
        "write it as io.containerd.TYPE.VERSION.NAME (`ctr plugins ls`), such as io.containerd.grpc.v1.cri",
    ),
    Kind.REQUIRED: Texts(
        'the plugin "{name}" is required, and {reason}: {runtime} does not start', "take it out of required_plugins"
    ),
    Kind.START: Texts("{reason}: {runtime} does not start"),
    Kind.NEVER_RUNS: Texts(
        "the CRI plugin does not load, so no container reaches NRI, and the socket is not made: {reason}",
        "{fix}, and restart {runtime}",
    ),
    Kind.RELEASES_REFUSE: Texts("containerd {releases} does not start with this file: {reason}", "", "note"),
    Kind.NO_VALIDATOR: Texts("containerd {releases} ignores this table: it has no default validator", "", "warning"),
    Kind.OTHER_CASE: Texts('"{key}" has no effect: the key is written in lower case', "write {right}"),
    Kind.NOT_IMPORTED: Texts(
        "it configures NRI, but nothing imports it",
        'add imports = ["/etc/containerd/conf.d/*.toml"] to /etc/containerd/config.toml',
    ),
    Kind.REPLACED: Texts(
        "containerd 1.x lets this table replace the one in {first}: {lost} go back to their defaults",
        "keep the whole NRI table in one file",
    ),
    Kind.RELEASE_DECIDES: Texts(
        "NRI is off with this file in containerd {off}, and on in {on}",
        'name the release with --release; or write version = 2 and in [plugins."io.containerd.nri.v1.nri"]'
        " disable = false",
        "warning",
    ),
}
_OWN_TEXTS = {
    ("containerd", Kind.WRONG_TYPE): Texts("must be {wanted}, not {value!r}: containerd does not start with it"),
    ("containerd", Kind.NO_DURATION): Texts("{reason}: containerd does not start with it", "{suggestion}"),
    ("containerd", Kind.UNREADABLE): Texts("{reason}: containerd does not start with it"),
    ("cri-o", Kind.RELEASE_DECIDES): Texts(
        "enable_nri is not set: on by default today, off in old releases",
        "say it: enable_nri = true in [crio.nri]",
        "note",
    ),
    ("docker", Kind.START): Texts("{reason}: dockerd does not start with it", "{suggestion}"),
    ("docker", Kind.WRONG_TYPE): Texts("must be {wanted}, not {value!r}: dockerd does not start with it"),
    ("docker", Kind.INVALID): Texts("{reason}: dockerd does not start with it"),
    ("docker", Kind.UNKNOWN_KEY): Texts(
        'unknown key "{key}": dockerd 29 does not start with it', "{suggestion}", "warning"
    ),
    ("isulad", Kind.DENIED): Texts("{reason}"),
    ("isulad", Kind.INVALID): Texts("{reason}"),
    ("isulad", Kind.NEVER_RUNS): Texts(
        "NRI is on, but plugins get no events: {reason}", 'set "enable-cri-v1": true and restart isulad'
    ),
    ("isulad", Kind.MISPLACED): Texts(
        '"{key}" is at the wrong level and has no effect', "move it to the top level of the file"
    ),
}


def texts_of(runtime: str, remark: Remark) -> Texts:
    """Put one remark on a runtime's configuration into words."""
    words = _OWN_TEXTS.get((runtime, remark.kind), _TEXTS[remark.kind])
    failure = remark.details.get("failure")
    if failure is not None:
        remark = remark._replace(details={**remark.details, "reason": texts_of(runtime, failure).what})
    parties = {
        **remark.details,
        "runtime": next(row.title for row in RUNTIMES if row.name == runtime),
        "wanted": _TYPES.get(remark.details.get("type", object), ""),
    }
    what, level = words.what.format(**parties), words.level
    if remark.kind is Kind.NEVER_RUNS and "releases" in remark.details:
        what, level = f"in containerd {remark.details['releases']} {what}", "warning"
    return Texts(what, words.next.format(**parties), level)
