"""The release of a runtime: of its program, or of the installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.config.runtimes.containerd import RUNTIME
from nri.config.runtimes.release import Release, find_release

DPKG = """Package: containerd-extra
Status: install ok installed
Version: 9.9.9

Package: containerd.io
Status: install ok installed
Version: 1:1.7.27-1

"""


def test_a_package_s_version_is_read_below_a_root(put) -> None:
    assert find_release(put({"/var/lib/dpkg/status": DPKG}), RUNTIME) == ("1.7.27-1", "/var/lib/dpkg/status")
    apk = {"/lib/apk/db/installed": "P:containerd\nV:2.1.4-r1\nT:x\n\n"}
    assert find_release(put({"/var/lib/dpkg/status": "", **apk}), RUNTIME).version == "2.1.4-r1"


@pytest.mark.parametrize("status", ["", "Package: containerd\nStatus: deinstall ok config-files\nVersion: 1.7.1\n"])
def test_without_a_package_nothing_is_known(put, status: str) -> None:
    assert find_release(put({"/var/lib/dpkg/status": status}), RUNTIME) == Release("", "")


def test_a_program_that_is_named_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "containerd"
    program.write_text("#!/bin/sh\necho containerd github.com/k3s-io/containerd v2.1.5-k3s1 abc\n")
    program.chmod(0o755)
    assert find_release("/", RUNTIME, [str(program)]) == ("2.1.5-k3s1", str(program))
