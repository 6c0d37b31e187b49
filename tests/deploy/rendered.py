"""Objects that kustomize and Helm make of deploy/, each rendered once for all tests of a run."""

from __future__ import annotations

import functools
import re
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
#: The bundled plugins, except those with manifests of their own, which give them access to the API server.
BUNDLED = sorted(
    entry.name
    for entry in registry.registered()
    if entry.value.startswith("nri.plugins.") and not (DEPLOY / entry.name / "kustomization.yaml").exists()
)


@functools.cache
def kustomized(path: str) -> str:
    """What `kustomize build` prints of a folder below deploy/kustomize."""
    return built(DEPLOY / "kustomize" / path)


def built(folder: Path) -> str:
    """What `kustomize build` prints of any folder."""
    return run([programs.kustomize(), "build", folder])


def render(name: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Render the chart for a plugin with settings such as ``log.level=debug`` and ``config={"key": "JSON"}``."""
    return render_chart("nri-plugin", f"plugin={name}", *settings)


def render_chart(chart: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Render a chart below deploy/helm."""
    flags = [("--set-json" if re.search(r'={"|=\[\]', setting) else "--set", setting) for setting in settings]
    command = [str(programs.chart_renderer()), *(word for flag in flags for word in flag)]
    command += ["mine", str(DEPLOY / "helm" / chart)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def charted(name: str, *settings: str) -> str:
    """The chart's manifests for a plugin."""
    return _manifests(render(name, *settings))


def rendered_chart(chart: str, *settings: str) -> str:
    """The manifests of a chart below deploy/helm."""
    return _manifests(render_chart(chart, *settings))


def _manifests(process: subprocess.CompletedProcess[str]) -> str:
    assert process.returncode == 0, process.stderr
    return process.stdout


def objects(text: str) -> dict[str, Json]:
    """Objects by kind; there are no two of a kind."""
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text) if manifest}
    assert manifests, "nothing was rendered"
    return manifests


def container(text: str) -> Json:
    """The plugin's container of a rendered text."""
    (only,) = pod(text)["containers"]
    assert only["name"] == "plugin"
    return dict(only)


def pod(text: str) -> Json:
    """The pod's spec of a rendered text."""
    return dict(objects(text)["DaemonSet"]["spec"]["template"]["spec"])
