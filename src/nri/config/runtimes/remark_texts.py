"""Messages for the remarks on a runtime's configuration: sentence, next step and level.

Names in braces are the remark's details. The doctor, config-manager and the engine print these messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri.config.runtimes.containerd.installations import installation_at
from nri.config.runtimes.reading import Kind
from nri.config.runtimes.registry import RUNTIMES

if TYPE_CHECKING:
    from nri.config.runtimes.reading import Remark, RuntimeNri
    from nri.config.runtimes.runtime import Runtime


class Texts(NamedTuple):
    """The sentence, the next step, and the level: problem, warning or note."""

    what: str
    next: str = ""
    level: str = "problem"


_TYPES = {
    bool: "true or false", str: "a quoted string", int: "a whole number", float: "a number", list: "a list of strings",
    dict: "a table",
}  # fmt: skip
_VERSION = (
    "write version = 2 (containerd 1.x) or version = 3 at the top; `containerd config migrate` prints a complete file"
)

_TEXTS = {
    Kind.DENIED: Texts("{reason}", "run the doctor as root"),
    Kind.UNREADABLE: Texts("{reason}"),
    Kind.INVALID: Texts("{reason}", "correct it: the runtime does not start with it"),
    Kind.MISSING_COMMA: Texts("{reason}", "check the end of the previous line for a missing comma"),
    Kind.EQUALS_SIGN: Texts("{reason}", "write a colon instead of the equals sign"),
    Kind.EXTRA_COMMA: Texts("JSON does not allow a comma after the last value", "remove the comma"),
    Kind.NO_TABLE: Texts("not a mapping of keys to values"),
    Kind.COMMENT: Texts("JSON does not allow comments", "remove the comment"),
    Kind.UNKNOWN_KEY: Texts('unknown key "{key}"; {runtime} ignores it', "{suggestion}"),
    Kind.FOREIGN_KEY: Texts('"{key}" is a key of containerd that {runtime} does not have', "write {right}"),
    Kind.OLD_SPELLING: Texts("the key has an old spelling, and {runtime} ignores it", 'write "{right}"'),
    Kind.SECOND_KEY: Texts('"{key}" is given twice: {runtime} uses the first value', "remove one of the two"),
    Kind.IGNORED_VALUE: Texts("must be {wanted}, not {value!r}: {runtime} ignores it"),
    Kind.FIXED_SOCKET: Texts(
        "{runtime} does not support another socket path", "remove the key; the socket is /var/run/nri/nri.sock"
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
    Kind.NO_SECONDS: Texts(
        'must be a whole number of seconds, not "{value}": {runtime} ignores it', "write {seconds:.0f}"
    ),
    Kind.MISSING_IMPORT: Texts(
        'the imported file "{path}" does not exist',
        "create the file, or remove it from the list: containerd does not start without it",
    ),
    Kind.MISSING_FILE: Texts("the file does not exist", "{runtime} does not start without it"),
    Kind.BAD_PATTERN: Texts(
        'the pattern "{pattern}" is malformed', "close the bracket: {runtime} does not start with this pattern"
    ),
    Kind.UNKNOWN_VERSION: Texts(
        "the configuration has version {version}, but this release of {runtime} supports versions up to {newest} and"
        " does not start",
        "write the file in version {newest}: `containerd config default` prints one",
    ),
    Kind.NEWER_DROP_IN: Texts(
        "in containerd 2.3.0 to 2.3.4 an imported file must not have a higher version than the main file: this file has"
        " {version}, the main file {main}, and the daemon does not start",
        "write version = {main} in this file, or remove the line",
    ),
    Kind.VERSION_CRASH: Texts(
        "{runtime} crashes at a file of version {version} after a file of version {other}",
        "write the same version in all files",
    ),
    Kind.SHORT_NAME: Texts(
        'the plugin "{name}" must have its full name: {runtime} does not start with this name',
        "write it as io.containerd.TYPE.VERSION.NAME (`ctr plugins ls`), such as io.containerd.grpc.v1.cri",
    ),
    Kind.SHORT_TABLE: Texts(
        'with version = 2 in any file, [plugins."{name}"] must have the plugin\'s full name: containerd 1.7 does not'
        " start with this name",
        "write it as io.containerd.TYPE.VERSION.NAME (`ctr plugins ls`), such as io.containerd.grpc.v1.cri",
    ),
    Kind.REQUIRED: Texts(
        'the plugin "{name}" is required, and {reason}: {runtime} does not start', "remove it from required_plugins"
    ),
    Kind.START: Texts("{reason}: {runtime} does not start"),
    Kind.NEVER_RUNS: Texts(
        "the CRI plugin does not load, so no container reaches NRI, and the socket is not created: {reason}",
        "{fix}, and restart {runtime}",
    ),
    Kind.RELEASES_REFUSE: Texts("containerd {releases} does not start with this file: {reason}", "", "note"),
    Kind.NO_VALIDATOR: Texts(
        "containerd {releases} ignores this table, because it has no default validator", "", "warning"
    ),
    Kind.OTHER_CASE: Texts('"{key}" has no effect: the key must be in lower case', "write {right}"),
    Kind.NOT_IMPORTED: Texts(
        "the file configures NRI, but is not imported",
        'add imports = ["/etc/containerd/conf.d/*.toml"] to /etc/containerd/config.toml',
    ),
    Kind.REPLACED: Texts(
        "in containerd 1.x this table replaces the table in {first}: {lost} revert to their defaults",
        "keep the entire NRI table in one file",
    ),
    Kind.RELEASE_DECIDES: Texts(
        "with this file NRI is disabled in containerd {off}, and enabled in {on}",
        'specify the release with --release; or write version = 2 and in [plugins."io.containerd.nri.v1.nri"]'
        " disable = false",
        "warning",
    ),
}
_OWN_TEXTS = {
    ("containerd", Kind.WRONG_TYPE): Texts("must be {wanted}, not {value!r}: containerd does not start with it"),
    ("containerd", Kind.NO_DURATION): Texts("{reason}: containerd does not start with it", "{suggestion}"),
    ("containerd", Kind.UNREADABLE): Texts("{reason}: containerd does not start with it"),
    ("cri-o", Kind.RELEASE_DECIDES): Texts(
        "enable_nri is not set: NRI is enabled by default, but disabled in old releases",
        "write enable_nri = true in [crio.nri]",
        "note",
    ),
    ("docker", Kind.START): Texts("{reason}: dockerd does not start with it", "{suggestion}"),
    ("docker", Kind.WRONG_TYPE): Texts("must be {wanted}, not {value!r}: dockerd does not start with it"),
    ("docker", Kind.INVALID): Texts("{reason}: dockerd does not start with it"),
    ("docker", Kind.UNKNOWN_KEY): Texts(
        'unknown key "{key}": dockerd 29 does not start with it', "{suggestion}", "warning"
    ),
    ("isulad", Kind.DENIED): Texts("{reason}"),
    ("isulad", Kind.INVALID): Texts("{reason}: iSulad does not start with it"),
    ("isulad", Kind.COMMENT): Texts(
        "JSON does not allow comments: iSulad does not start with it", "remove the comment, or begin it with //"
    ),
    ("isulad", Kind.NEVER_RUNS): Texts(
        "NRI is on, but plugins get no events: {reason}", 'set "enable-cri-v1": true and restart isulad'
    ),
    ("isulad", Kind.MISPLACED): Texts(
        '"{key}" is at the wrong level and has no effect', "move it to the top level of the file"
    ),
}


def texts_of(runtime: str, remark: Remark) -> Texts:
    """The messages for a remark on a runtime's configuration."""
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


def switch_on_step(runtime: Runtime, nri: RuntimeNri) -> str:
    """Return how to turn NRI on. If a program writes the file anew at each start, its template has to be changed."""
    installation = installation_at(nri.path) if nri.path else None
    if installation is None:
        return runtime.switch_on
    command = f"nri config-manager --file {nri.path}"
    if installation.templates:
        return f"{nri.path} is written anew at each start of {installation.name}: change its template with {command}"
    return f"{command}, and restart {installation.name}"
