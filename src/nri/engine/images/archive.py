"""Detect the kind of an image archive, and write its path with the kind in front, as skopeo expects it."""

from __future__ import annotations

import itertools
import lzma
import os
import tarfile
import zlib

from nri.errors import NriError
from nri.files import open_regular

#: The maximum number of archive members that are read to detect the kind.
_MAX_MEMBERS = 100_000
_KINDS = ("docker-archive:", "oci-archive:", "oci:")
#: The files by which a kind is recognized. New archives of docker save have both files, and can be read as both kinds.
_MARKS = {"manifest.json": "docker-archive:", "oci-layout": "oci-archive:"}


def archive_source(archive: str) -> str:
    """Return the absolute path of an archive, with its kind in front. Raises NriError if it is not an image archive."""
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
        raise NriError(f"{archive}: no such file") from None
    except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        reason = (
            "not a tar archive" if "\n" in str(error) else error
        )  # tarfile lists every compression that it has tried
        raise NriError(f"{archive} is not a readable archive: {reason}. Create one: docker save, podman save") from None
    if not kind:
        raise NriError(f"{archive} is not an image archive: neither manifest.json nor oci-layout found")
    return f"{kind}{path}"
