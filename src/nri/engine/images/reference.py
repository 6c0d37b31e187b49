"""Names of images, in the one form that all of the field's tools mean: ``docker.io/library/busybox:latest``.

Pure; the grammar is that of github.com/distribution/reference; a name without a registry is Docker Hub's, one
without tag and digest has the tag ``latest``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.engine.support.errors import InvalidRequest
from nri.text import cut

HUB = "docker.io"
_LIMIT, _LONGEST = 255, 512  # of registry and repository; with tag and digest
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
#: Of a manifest or a configuration; others than SHA-256 are not in use anywhere.
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Reference(NamedTuple):
    """An image's name: registry, repository, and a tag, a digest or both."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        """Registry and path, such as ``docker.io/library/busybox``."""
        return f"{self.domain}/{self.path}"

    @property
    def pullable(self) -> str:
        """The name that a registry is asked for: by the digest if there is one, because a tag beside it says less."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse_reference(text: str) -> Reference:
    """An image's name in its full form. Raises InvalidRequest with what is wrong."""
    if len(text) > _LONGEST:
        raise _invalid(text, f"it is longer than {_LONGEST} letters")
    rest, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise _invalid(text, f"{digest!r} is not a digest (sha256: and 64 hexadecimal digits)")
    head, _, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(text, f"{tag!r} is no tag (letters, digits, '_', '.' and '-', at most 128)")
    domain, path = _split(f"{head}/{last}" if head else last)
    if not _DOMAIN.fullmatch(domain):
        raise _invalid(text, f"{domain!r} is no registry's name")
    if not _PATH.fullmatch(path):
        raise _invalid(text, f"{path!r} is no repository (small letters, digits, and '.', '_', '-' between them)")
    if len(f"{domain}/{path}") > _LIMIT:
        raise _invalid(text, f"it is longer than {_LIMIT} letters")
    return Reference(domain, path, tag or ("" if digest else "latest"), digest)


def _split(name: str) -> tuple[str, str]:
    """Registry and path: the first part is a registry if it could be nothing else."""
    first, slash, rest = name.partition("/")
    is_domain = bool(slash) and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    domain, path = (first, rest) if is_domain else (HUB, name)
    if domain == "index.docker.io":
        domain = HUB
    return domain, f"library/{path}" if domain == HUB and "/" not in path else path


def _invalid(text: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{cut(text)!r} names no image: {reason}")
