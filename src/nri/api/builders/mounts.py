"""Checks of the arguments of a mount, as tried with runc 1.1 and 1.3, and crun 1.8.

Destinations and lists of options that were accepted are remembered, because a plugin sets the same in every container.
"""

from __future__ import annotations

from nri.api.builders.checks import new_path, remember, text, texts, warn_once
from nri.text import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_BIND = ("bind", "rbind")
_TYPES_OF_BIND_MOUNTS = frozenset(("", "none", *_BIND))
#: Options of other programs -> the option of the OCI spec. Runtimes ignore the former for a bind mount.
_OPTION_BY_SYNONYM = {
    "readonly": "ro",
    "read-only": "ro",
    "read_only": "ro",
    "RO": "ro",
    "readwrite": "rw",
    "read-write": "rw",
    "writable": "rw",
    "RW": "rw",
    "recursive": "rbind",
}
#: Options that runtimes know only as an element of the list, and options that change the mount's propagation.
_PROPAGATION = frozenset((
    "private", "rprivate", "rshared", "rslave", "runbindable", "shared", "slave", "unbindable",
))  # fmt: skip
_FLAGS = frozenset((
    *_PROPAGATION, "bind", "dev", "exec", "noatime", "nodev", "noexec", "nosuid", "rbind", "relatime", "ro", "rw",
    "suid",
))  # fmt: skip
#: Further options of runc and crun for a bind mount.
_RARE_OPTIONS = frozenset((
    "async", "atime", "copy-symlink", "defaults", "diratime", "dirsync", "idmap", "iversion", "lazytime", "loud",
    "mand", "nodiratime", "noiversion", "nolazytime", "nomand", "norelatime", "nostrictatime", "nosymfollow", "ratime",
    "rdev", "rdiratime", "remount", "rexec", "ridmap", "rnoatime", "rnodev", "rnodiratime", "rnoexec", "rnorelatime",
    "rnostrictatime", "rnosuid", "rnosymfollow", "rrelatime", "rro", "rrw", "rstrictatime", "rsuid", "rsymfollow",
    "silent", "src-nofollow", "strictatime", "symfollow", "sync", "tmpcopyup",
))  # fmt: skip
#: Sets of options that exclude each other. A runtime applies the last one of a set.
_OPPOSITES = (
    *(frozenset((word, f"no{word}")) for word in ("atime", "dev", "exec", "suid")),
    frozenset(("ro", "rw")),
    _PROPAGATION,
)

_points: set[str] = set()
_option_lists: set[tuple[Any, ...]] = set()


def mount_point(name: str, value: Any) -> str:
    """Check the destination of a mount. A path with `..` is logged as a doubt; see also `nri.api.builders.checks`.

    Raises:
        TypeError: the path is not a str.
        ValueError: the path is empty, relative, marked for removal, or the container's root.
    """
    if value.__class__ is str and value in _points:
        return value
    path = new_path(name, value, "remove_mount")
    folders = [folder for folder in path.split("/") if folder not in ("", ".")]
    if all(folder == ".." for folder in folders):
        raise ValueError(
            f"{name} must be a path below the container's root, not {path!r}: runtimes cannot mount over the root"
        )
    if ".." in folders:
        warn_once(f"{name} {path!r} contains '..': runtimes remove it together with the name before it; write the path")
    remember(_points, path)
    return path


def mount_options(kind: Any, options: Any) -> Sequence[str]:
    """Check the type and the options of a mount together. Options without effect are logged as a doubt.

    Raises:
        TypeError: the type is not a str, or the options are not a list of texts.
        ValueError: no runtime could make the mount, or it would ignore an option that is a common mistake.
    """
    if options.__class__ is list:
        try:
            if (kind, *options) in _option_lists:
                return options
        except TypeError:
            pass  # an option without a hash, which `texts` reports
    kind, words = text("type", kind), texts("options", options)
    is_bind = "bind" in words or "rbind" in words
    if is_bind or kind in _TYPES_OF_BIND_MOUNTS:
        # Other file systems decide on their options: the kernel reads even `ro,size=1m` in one text.
        _check_bind_options(words)
    if not is_bind and kind in _BIND:
        raise ValueError("options must contain bind or rbind for a bind mount, for example ['rbind', 'ro']")
    if not is_bind and kind in _TYPES_OF_BIND_MOUNTS:
        raise ValueError("type must be given, for example tmpfs, or options must contain bind or rbind")
    for opposites in _OPPOSITES:
        both = [word for word in words if word in opposites]
        if len(set(both)) > 1:
            warn_once(f"the mount options {both} contradict each other: runtimes apply {both[-1]!r}; leave others out")
    remember(_option_lists, (kind, *words))
    return words


def _check_bind_options(options: Sequence[str]) -> None:
    for option in options:
        if option in _FLAGS:
            continue
        if option in _OPTION_BY_SYNONYM:
            raise ValueError(f"options must be those of mount(8): write {_OPTION_BY_SYNONYM[option]!r}, not {option!r}")
        parts = option.split(",")
        if len(parts) > 1 and not _FLAGS.isdisjoint(parts):
            raise ValueError(f"options must be separate strings: write {parts}, not {option!r}")
        if option not in _RARE_OPTIONS and not option.startswith(("idmap=", "ridmap=")):
            suggestion = nearest(option.strip(), sorted(_FLAGS))
            advice = f"; did you mean {suggestion!r}?" if suggestion else ""
            warn_once(f"runtimes ignore the option {option!r} of a bind mount{advice}")


def mount_source(source: Any, options: Sequence[str]) -> None:
    """Check the source of a mount. A relative source of a bind mount is logged as a doubt.

    Raises:
        TypeError: the source is not a str.
        ValueError: the source has an invalid character.
    """
    if not text("source", source).startswith("/") and ("bind" in options or "rbind" in options):
        warn_once(
            f"the source {source!r} of a bind mount is not an absolute path: runtimes look for it in the folder of the"
            " container's configuration, or refuse it"
        )
