"""A dry engine for the verbs of pods, and a manifest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.unit.cli.dry_engine import engine

Pod = Callable[..., "CompletedProcess[str]"]
MANIFEST = """
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - {name: app, image: "busybox:1", command: [sleep, "9"], volumeMounts: [{name: data, mountPath: /data}]}
  - {name: side, image: "busybox:1", args: [x]}
"""


@pytest.fixture(scope="session")
def dry() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-pod-", dir="/tmp") as folder, engine(Path(folder)):
        yield Path(folder)


@pytest.fixture
def pod(nri, dry: Path, tmp_path: Path) -> Iterator[Pod]:
    """Run `nri pod ...` on the engine; manifests are given as `text`. All pods are gone afterwards."""

    def call(*words: str, text: str = MANIFEST, **variables: str) -> CompletedProcess[str]:
        (tmp_path / "pod.yaml").write_text(text)
        env = {"NRI_CRI_SOCKET": str(dry / "cri.sock"), "NRI_PODS_DIR": str(tmp_path / "pods"), **variables}
        return nri("pod", *words, env=env, cwd=tmp_path, stdin=text)

    yield call
    call("rm", "-f", "--all")
