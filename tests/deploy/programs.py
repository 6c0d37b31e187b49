"""Programs that render the files below deploy/: Debian's kustomize, kept in the cache, and Helm's engine.

A missing program skips the test, or fails it where skips are forbidden. `chartrender` has Helm's loader, schema check
and engine; building all of helm takes minutes and is left to tests/apiserver.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from tests.peers.build import peer
from tests.support.needs import need
from tools.runtimes import debs
from tools.runtimes.machine import MissingError, architecture, cache_dir, cache_lock

KUSTOMIZE_SUITE = "trixie"


@functools.cache
def kustomize() -> Path:
    """The program kustomize."""
    try:
        return _kustomize()
    except MissingError as error:
        need(False, str(error))
        raise


def _kustomize() -> Path:
    folder = cache_dir() / f"kustomize-{KUSTOMIZE_SUITE}-{architecture()}"
    with cache_lock(folder.name):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
                content = Path(scratch, "content")
                content.mkdir()
                debs.unpack("kustomize", KUSTOMIZE_SUITE, content, Path(scratch, "apt"))
                shutil.move(content, folder)
    return folder / "usr/bin/kustomize"


def chart_renderer() -> Path:
    """What renders a chart as `helm template` does: NAME FOLDER, with --set before."""
    return peer("chartrender")
