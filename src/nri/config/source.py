"""Where configuration comes from: a named text, a file read in one piece, and a cheap way to see that a file changed.

Rules: nothing is parsed here (see `nri.config.syntax`); files are bounded, so that a wrong path cannot fill memory.
"""

from __future__ import annotations

import os

from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Format = Literal["auto", "json", "yaml", "toml"]

#: No configuration of this field comes near it; a device file or a wrong path would.
MAX_BYTES = 4 << 20

_BY_SUFFIX: dict[str, Format] = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


class Source:
    """One text of configuration with the name that errors will call it by.

    `format` "auto" takes text that starts with ``{`` for JSON and all else for YAML.
    """

    __slots__ = ("format", "name", "text")

    def __init__(self, name: str, text: str, format: Format = "auto") -> None:  # noqa: A002  (the word users expect)
        self.name = name
        self.text = text
        self.format: Format = format

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.text)} characters, {self.format!r})"


def read_file(path: str | os.PathLike[str], format: Format | None = None) -> Source:  # noqa: A002  (as in Source)
    """Read a file as one consistent text. The format is told by the suffix, or "auto", unless given.

    A file that is written while it is read is read again, so that half a configuration is never used.
    Raises ConfigError with the path and the reason: missing, unreadable, not text, too large.
    """
    name = os.fspath(path)
    try:
        raw = _read_settled(name)
    except OSError as error:
        raise ConfigError(name, "", f"cannot read it: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(name, "", f"larger than {MAX_BYTES >> 20} MiB", "is this the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(name, "", f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}") from None
    return Source(name, text, format or _BY_SUFFIX.get(os.path.splitext(name)[1].lower(), "auto"))


def _read_settled(path: str, tries: int = 3) -> bytes:
    """The bytes of the file, read again when its size or time changed meanwhile."""
    raw = b""
    for _ in range(tries):
        with open(path, "rb") as file:
            before = os.fstat(file.fileno())
            raw = file.read(MAX_BYTES + 1)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            break
    return raw


class Watch:
    """Tells whether files changed since it was last asked, by one `stat` each: no thread, no dependency.

    Poll `changed()` every second or two. A ConfigMap is a symbolic link that is swapped; `stat` follows it, so that
    counts as a change, as do a file that appears and one that goes away.
    """

    __slots__ = ("_paths", "_seen")

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._seen = [_fingerprint(path) for path in self._paths]

    def changed(self) -> bool:
        """Whether any file differs from what was seen by the last call (or at construction)."""
        now = [_fingerprint(path) for path in self._paths]
        differs = now != self._seen
        self._seen = now
        return differs


def _fingerprint(path: str) -> tuple[int, ...] | None:
    """What tells one content of a file from the next, without reading it; None when there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
