"""A plugin to install, and folders to install it into."""

from __future__ import annotations

from pathlib import Path

import pytest

PLUGIN = """\
import os, sys
import nri

class PodName(nri.Plugin):
    class Config:
        cpus: str = "0"

    def create_container(self, pod, container):
        return nri.Adjustment().add_env("POD_NAME", pod.name)

if "OUT" in os.environ:
    with open(os.environ["OUT"], "w") as out:
        out.write(" ".join([sys.executable, *sys.argv[1:]]))
else:
    PodName.main()
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "with blank's"
    folder.mkdir()
    path = folder / "pod_name.py"
    path.write_text(PLUGIN)
    path.chmod(0o644)
    return path


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    # With time to start, which a plugin may need longer for beside other tests than runtimes allow.
    folders = ["--plugin-dir", str(tmp_path / "plugins"), "--config-dir", str(tmp_path / "conf.d")]
    return ["--timeout", "30s", *folders]
