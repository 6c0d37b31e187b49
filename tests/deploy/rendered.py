"""What kustomize and Helm make of deploy/, as objects: each rendered once for all tests of a run.

Next: `test_bundled_manifests`.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from nri.plugins import registry
from tests.deploy import programs
from tests.support.commands import run
from tools.deployment import table

Json = dict[str, Any]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NEEDS = {need.name: need for need in table.read()}
PLUGINS = sorted(NEEDS)
BUNDLED = sorted(each.name for each in registry.registered() if each.value.startswith("nri.plugins."))


@functools.cache
def kustomized(path: str) -> str:
    """What `kustomize build` prints of a folder below deploy/kustomize."""
    return built(DEPLOY / "kustomize" / path)


def built(folder: Path) -> str:
    """What `kustomize build` prints of any folder."""
    return run([programs.kustomize(), "build", folder])


def render(name: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Render the chart of a plugin with settings such as ``idx=20`` and ``config={"key": "JSON"}``."""
    flags = [("--set-json" if '={"' in each else "--set", each) for each in settings]
    words = [str(programs.chart_renderer()), *(word for pair in flags for word in pair)]
    words += ["mine", str(DEPLOY / "helm" / name)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def charted(name: str, *settings: str) -> str:
    """The manifests of the chart of a plugin."""
    done = render(name, *settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[str, Json]:
    """Objects by kind; there are no two of a kind."""
    found = {each["kind"]: each for each in yaml.safe_load_all(text) if each}
    assert found, "nothing was rendered"
    return found


def container(text: str) -> Json:
    """The plugin's container of a rendered text."""
    (only,) = pod(text)["containers"]
    assert only["name"] == "plugin"
    return dict(only)


def pod(text: str) -> Json:
    """The pod's spec of a rendered text."""
    return dict(objects(text)["DaemonSet"]["spec"]["template"]["spec"])
