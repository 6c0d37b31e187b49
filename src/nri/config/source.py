"""Sources of configuration: a text with a name, or a file that is read in one piece.

Rules: nothing is parsed here (see `nri.config.syntax`); files are bounded, so that a wrong path cannot fill memory.
"""

from __future__ import annotations

import errno
import os
import stat

from nri.config.watch import fingerprint_of
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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


def read_file(
    path: str | os.PathLike[str],
    format: Format | None = None,  # noqa: A002  (as in Source)
    *,
    ordinary: bool = False,
) -> Source:
    """Read a file as one consistent text. The format is told by the suffix, or "auto", unless given.

    A file that is written while it is read is read again, so that half a configuration is never used.
    With `ordinary`, pipes and devices are refused at once: for folders of files, where a pipe would wait for a writer
    for ever. A path that a person gave may be one, as a shell's `<(command)` is.
    Raises ConfigError with the path and the reason: missing, unreadable, not text, too large, not ordinary.
    """
    name = os.fspath(path)
    try:
        raw = _read_settled(name, open_ordinary if ordinary else None)
    except OSError as error:
        raise ConfigError(name, "", f"cannot read it: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(name, "", f"larger than {MAX_BYTES >> 20} MiB", "is this the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(name, "", f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}") from None
    return Source(name, text, format or _BY_SUFFIX.get(os.path.splitext(name)[1].lower(), "auto"))


def open_ordinary(path: str, flags: int) -> int:
    """Open a file, and nothing that would wait: an opener for `open`. OSError for a pipe or a device."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # of a folder `open` itself says what it is
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not an ordinary file")
    return descriptor


def _read_settled(path: str, opener: Callable[[str, int], int] | None, tries: int = 3) -> bytes:
    """The bytes of the file, read again when its size or time changed meanwhile."""
    raw = b""
    for _ in range(tries):
        with open(path, "rb", opener=opener) as file:
            before = fingerprint_of(os.fstat(file.fileno()))
            raw = file.read(MAX_BYTES + 1)
            after = fingerprint_of(os.fstat(file.fileno()))
        if before == after:
            break
    return raw
