"""The containerd releases of the tests and the demo, and how each one is installed.

Debian's are pinned by suite; the version that the archive has is reported, not required. The cache has complete
releases only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.runtimes import debs, gobuild
from tools.runtimes.machine import Say, architecture, cache_dir, cache_lock

_GO_MODULES = Path(__file__).resolve().parents[2] / "tests/real"
NRI_MODULE = "github.com/containerd/nri"
NRI_DEBIAN = "golang-github-containerd-nri"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of containerd, from a suite of Debian or built from a Go module.

    Attributes:
        key: its name.
        config_version: the version of the configuration that the tests write for it.
        suite: the suite of Debian, or "".
        module: the folder of the Go module, or "".
    """

    key: str
    config_version: int
    suite: str = ""
    module: str = ""

    @property
    def source(self) -> Path:
        """The folder of the Go module."""
        return _GO_MODULES / self.module


@dataclass(frozen=True, slots=True)
class Installed:
    """A release on this machine: the folder of its commands, its version, its NRI library's version."""

    release: Release
    bin: Path
    version: str
    nri_version: str

    def __str__(self) -> str:
        return f"containerd {self.version} (NRI {self.nri_version})"


RELEASES = {
    row.key: row
    for row in (
        Release("1.7", 2, suite="trixie"),
        Release("2.1", 3, suite="sid"),
        Release("2.3", 3, module="containerd23"),
        Release("2.4", 3, module="containerd24"),
    )
}


def install(key: str, say: Say) -> Installed:
    """Get a release, from the cache if it exists; `MissingError` has the reason."""
    release = RELEASES[key]
    folder = cache_dir() / f"containerd-{key}-{_fingerprint(release)}"
    with cache_lock(folder.name):
        if not (folder / "about.json").exists():
            _fill(release, folder, say)
    about = json.loads((folder / "about.json").read_text())
    return Installed(release, folder / about["bin"], about["version"], about["nri"])


def _fingerprint(release: Release) -> str:
    """Changes when the release must be got again: with the machine or the go.mod."""
    if release.suite:
        return f"{release.suite}-{architecture()}"
    return hashlib.sha256((release.source / "go.sum").read_bytes()).hexdigest()[:12]


def _fill(release: Release, folder: Path, say: Say) -> None:
    """Make the folder next to its final place and move it there when it is complete."""
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=cache_dir()))
    try:
        content = scratch / "content"
        content.mkdir()
        if release.suite:
            say(f"fetching containerd {release.key} from Debian {release.suite}")
            unpacked = debs.unpack("containerd", release.suite, content, scratch / "apt")
            version, nri = unpacked.version, unpacked.built_using.get(NRI_DEBIAN, "?")
            where = "usr/bin"
        else:
            say(f"building containerd {release.key} (two to three minutes, once)")
            modules = gobuild.build(release.source, content / "bin")
            version, nri, where = modules[gobuild.MODULE], modules[NRI_MODULE], "bin"
        about = {"bin": where, "version": _plain(version), "nri": _plain(nri)}
        (content / "about.json").write_text(json.dumps(about))
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _plain(version: str) -> str:
    """`1.7.24~ds1-6+deb13u1` -> `1.7.24`: without Debian's epoch, repacking mark and revision."""
    return re.split(r"[-+~]", version.removeprefix(f"{version.partition(':')[0]}:"))[0]
