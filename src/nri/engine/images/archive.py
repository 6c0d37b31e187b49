"""Recognize an archive of images by its content, and name it as skopeo does."""

from __future__ import annotations

import itertools
import lzma
import os
import tarfile
import zlib

from nri.errors import NriError
from nri.files import open_regular

#: The kind of an archive is read from this many of its members at most.
_MAX_MEMBERS = 100_000
_KINDS = ("docker-archive:", "oci-archive:", "oci:")
#: By which member an archive is known; docker save's new ones have both, and either does.
_MARKS = {"manifest.json": "docker-archive:", "oci-layout": "oci-archive:"}


def archive_source(archive: str) -> str:
    """Return an archive with its kind in front, and its whole path; NriError if it is not an archive."""
    for kind in _KINDS:
        if archive.startswith(kind):
            return kind + os.path.abspath(archive.removeprefix(kind))
    path = os.path.abspath(archive)
    if os.path.isdir(path):
        return f"oci:{path}"
    try:
        with open(open_regular(path), "rb") as file, tarfile.open(fileobj=file) as members:
            names = (member.name.removeprefix("./") for member in itertools.islice(members, _MAX_MEMBERS))
            kind = next((_MARKS[name] for name in names if name in _MARKS), "")
    except FileNotFoundError:
        raise NriError(f"there is no {archive}") from None
    except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        reason = "it is no tar" if "\n" in str(error) else error  # tarfile lists every kind that it has tried
        raise NriError(f"{archive} is no archive that can be read: {reason}. try: docker save, podman save") from None
    if not kind:
        raise NriError(f"{archive} is no image: it has neither manifest.json nor oci-layout")
    return f"{kind}{path}"
