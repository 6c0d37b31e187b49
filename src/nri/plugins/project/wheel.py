"""This installation of nri as a wheel, for projects that need it where no package index has it.

The files of the package as they lie here, and the metadata of its installation, are packed again: no build tool and no
network is needed, and the same files always make the same wheel. Its version gets a local label made of its content
(``0.1.0+local.s1a2b3c4d``). An index takes no such version, so a project that asks for it gets this wheel or nothing;
never a stranger's package of the same name. The wheel is pure Python, also where the package that runs here is
compiled. Next: `nri.plugins.project.scaffold`, which puts it into a project.
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

__all__ = ["Wheel", "own_wheel"]

_WHEEL = "Wheel-Version: 1.0\nGenerator: nri new\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
#: A placeholder for the version until it is known.
_VERSION = b"Version: (open)\n"
#: The earliest time that a zip archive can name: files have no time of their own here.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Wheel(NamedTuple):
    """A wheel that has been written.

    Attributes:
        path: where it is.
        version: its version, with the local label.
        sha256: the hash of the whole file, in hex.
    """

    path: Path
    version: str
    sha256: str


def own_wheel(folder: Path) -> Wheel:
    """Write the wheel of this nri into a folder. NriError if it is only imported from somewhere, and not installed."""
    try:
        distribution = metadata.distribution("nri")
    except metadata.PackageNotFoundError:
        place = Path(nri.__file__).parents[2]
        raise NriError(
            f"nri is imported from {place} and not installed, so no project can name it. First: pip install {place}"
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
    """Read the files of the package, by their path in a wheel. Compiled modules stay out: their source is there."""
    root = Path(nri.__file__).parent
    files = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        if path.is_file() and not hidden and path.suffix not in (".so", ".pyc"):
            files[f"nri/{name.as_posix()}"] = path.read_bytes()
    return files


def _metadata(distribution: metadata.Distribution) -> dict[str, bytes]:
    """Read what the installation says of the package, by names below the metadata folder; the version is left open."""
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
    """Return the version with a label made from the content, instead of one of this kind that it has already."""
    version = re.sub(r"[+.]local\.s[0-9a-f]{8}$", "", version)
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    return f"{version}{'.' if '+' in version else '+'}local.s{digest.hexdigest()[:8]}"


def _record(files: Mapping[str, bytes], record_path: str) -> str:
    """Write the list of all files with their hashes, which every wheel has."""
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
