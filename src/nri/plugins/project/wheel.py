"""Pack this installation of nri as a wheel, for projects that cannot get it from a package index.

This needs no build tool and no network. The same files always give the same wheel. The wheel's version has a local
label with a hash of the content, such as ``0.1.0+local.s1a2b3c4d``. A package index does not accept local labels, so a
project that requires this version never gets another package named nri.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import nri
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHEEL = "Wheel-Version: 1.0\nGenerator: nri new\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
#: Placeholder for the version until the content is hashed.
_VERSION = b"Version: (open)\n"
#: The time of all files, the earliest time in a zip archive, so that the wheel depends on content alone.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Wheel(NamedTuple):
    """A wheel.

    Attributes:
        path: its path.
        version: its version, with the local label.
        sha256: the hash of the whole file, in hex.
    """

    path: Path
    version: str
    sha256: str


def own_wheel(folder: Path) -> Wheel:
    """Write the wheel of this nri into a folder. Raises NriError if nri is not installed as a distribution."""
    try:
        distribution = metadata.distribution("nri")
    except metadata.PackageNotFoundError:
        place = Path(nri.__file__).parents[2]
        raise NriError(
            f"nri is imported from {place} and not installed, so it cannot be packed. First: pip install {place}"
        ) from None
    content = _package() | _metadata(distribution)
    version = labelled(distribution.version, content)
    info = f"nri-{version}.dist-info"
    files = {name if name.startswith("nri/") else f"{info}/{name}": data for name, data in content.items()}
    files[f"{info}/METADATA"] = files[f"{info}/METADATA"].replace(_VERSION, f"Version: {version}\n".encode(), 1)
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    path = folder / f"nri-{version}-py3-none-any.whl"
    _write(path, files)
    return Wheel(path, version, hashlib.sha256(path.read_bytes()).hexdigest())


def _package() -> dict[str, bytes]:
    """Read the files of the package by their path in a wheel, without compiled modules."""
    root = Path(nri.__file__).parent
    files = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if path.is_file() and not hidden and path.suffix not in (".so", ".pyc"):
            files[f"nri/{name.as_posix()}"] = path.read_bytes()
    return files


def _metadata(distribution: metadata.Distribution) -> dict[str, bytes]:
    """Read the installed metadata by names below the metadata folder, with a placeholder for the version."""
    text = distribution.read_text("METADATA") or ""
    files = {
        "METADATA": re.sub(r"(?m)^Version: .*\n", _VERSION.decode(), text, count=1).encode(),
        "WHEEL": _WHEEL.encode(),
        "entry_points.txt": (distribution.read_text("entry_points.txt") or "").encode(),
    }
    for file in distribution.files or ():
        if ".dist-info/licenses/" in file.as_posix():
            files[f"licenses/{file.name}"] = Path(str(file.locate())).read_bytes()
    return files


def labelled(version: str, content: Mapping[str, bytes]) -> str:
    """Return the version with a label of the content, which replaces an earlier label of this kind."""
    version = re.sub(r"[+.]local\.s[0-9a-f]{8}$", "", version)
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    return f"{version}{'.' if '+' in version else '+'}local.s{digest.hexdigest()[:8]}"


def _record(files: Mapping[str, bytes], record_path: str) -> str:
    """Return the text of RECORD: all files with their hashes."""
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*rows, f"{record_path},,\n"])


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
