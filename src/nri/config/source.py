"""Sources of configuration: a text with a name, or a file that is read in one piece."""

from __future__ import annotations

import os

from nri.config.watch import fingerprint_of
from nri.errors import ConfigError
from nri.files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Format = Literal["auto", "json", "yaml", "go-yaml", "lenient-go-yaml", "toml"]

#: No configuration of this field comes near it; a device file or a wrong path would.
MAX_BYTES = 4 << 20

_BY_SUFFIX: dict[str, Format] = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


class Source:
    """One text of configuration with the name that errors will call it by.

    `format` "auto" takes text that starts with ``{`` for JSON and all else for YAML. "go-yaml" is YAML as Kubernetes
    reads it, "lenient-go-yaml" the same with keys that are given twice, of which the last one counts.
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
) -> Source:
    """Read a file as one consistent text. The format follows from the suffix, else it is "auto", unless given.

    A file that is written while it is read is read again, so that half a configuration is never used.
    Raises ConfigError with the path and the reason: missing, unreadable, not text, too large, or not a regular file: a
    pipe, as a shell's `<(command)` is one, could be waited for as long as nobody writes to it.
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
        with open(path, "rb", opener=open_regular) as file:
            before = fingerprint_of(os.fstat(file.fileno()))
            raw = file.read(MAX_BYTES + 1)
            after = fingerprint_of(os.fstat(file.fileno()))
        if before == after:
            break
    return raw
