"""Parse image names, and complete short names: ``busybox`` is ``docker.io/library/busybox:latest``.

The grammar is that of github.com/distribution/reference. The default registry is Docker Hub, and the default tag is
``latest``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.text import cut

HUB = "docker.io"
#: The maximum length of registry and path together, and of a name with tag and digest.
_MAX_REPOSITORY_LENGTH, _MAX_LENGTH = 255, 512
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
#: The digest of a manifest or a configuration; SHA-256 is the only algorithm in use.
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Reference(NamedTuple):
    """An image's name: registry, repository, and a tag, a digest or both."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        """Registry and path, for example ``docker.io/library/busybox``."""
        return f"{self.domain}/{self.path}"

    @property
    def pullable(self) -> str:
        """The name for requests to a registry: with the digest if the name has one, otherwise with the tag."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse_reference(text: str) -> Reference:
    """Parse an image's name and complete it. Raises ValueError if the name is invalid."""
    if len(text) > _MAX_LENGTH:
        raise _invalid_name(text, f"the name exceeds {_MAX_LENGTH} characters")
    before_digest, separator, digest = text.partition("@")
    if separator and not DIGEST.fullmatch(digest):
        raise _invalid_name(text, f"{digest!r} is not a digest (sha256: and 64 hexadecimal digits)")
    head, _, last = before_digest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid_name(text, f"{tag!r} is not a tag (letters, digits, '_', '.' and '-', at most 128)")
    domain, path = _split(f"{head}/{last}" if head else last)
    if not _DOMAIN.fullmatch(domain):
        raise _invalid_name(text, f"{domain!r} is not a registry's name")
    if not _PATH.fullmatch(path):
        raise _invalid_name(
            text, f"{path!r} is not a repository (lowercase letters, digits, and '.', '_', '-' between them)"
        )
    if len(f"{domain}/{path}") > _MAX_REPOSITORY_LENGTH:
        raise _invalid_name(text, f"registry and path exceed {_MAX_REPOSITORY_LENGTH} characters")
    return Reference(domain, path, tag or ("" if digest else "latest"), digest)


def has_registry(name: str) -> bool:
    """Return whether a name begins with a registry: its first part cannot be part of a path."""
    first, slash, _ = name.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost" or first.lower() != first)


def _split(name: str) -> tuple[str, str]:
    """Split a name into registry and path."""
    first, _, path_ = name.partition("/")
    domain, path = (first, path_) if has_registry(name) else (HUB, name)
    if domain == "index.docker.io":
        domain = HUB
    return domain, f"library/{path}" if domain == HUB and "/" not in path else path


def _invalid_name(text: str, reason: str) -> ValueError:
    return ValueError(f"{cut(text)!r} is not an image name: {reason}")
