"""Sources of configuration: a text with a name, or a file that is read consistently."""

from __future__ import annotations

import os

from nri.config.watch import fingerprint_of
from nri.errors import ConfigError
from nri.files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Format = Literal["auto", "json", "yaml", "go-yaml", "lenient-go-yaml", "toml"]

#: Maximum size of a source. Configuration is much smaller; a device file or a wrong path may exceed it.
MAX_BYTES = 4 << 20

_BY_SUFFIX: dict[str, Format] = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


class Source:
    """A text of configuration with its name for errors.

    `format` "auto" takes text that starts with ``{`` for JSON and all else for YAML. "go-yaml" is YAML as Kubernetes
    reads it, "lenient-go-yaml" the same with keys that are given twice, of which the last one is used.
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
    """Read a file consistently. The default format depends on the suffix; without a known suffix it is "auto".

    A file that changes while it is read is read again, so that half a configuration is never used.

    Raises ConfigError if the file is missing, unreadable, not UTF-8, too large, or not a regular file. A pipe, for
    example a shell's `<(command)`, could block until another program writes to it.
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
    """The bytes of the file. It is read again if its size or time changed during the read."""
    raw = b""
    for _ in range(tries):
        with open(path, "rb", opener=open_regular) as file:
            before = fingerprint_of(os.fstat(file.fileno()))
            raw = file.read(MAX_BYTES + 1)
            after = fingerprint_of(os.fstat(file.fileno()))
        if before == after:
            break
    return raw
