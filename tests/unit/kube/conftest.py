"""Manifests of one pod, written and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nri.config import read_file
from nri.kube.manifest import ImageConfig, Workload, read_manifests


def pod(spec: str = "{containers: [{name: app}]}", metadata: str = "{name: web}") -> str:
    return f"kind: Pod\nmetadata: {metadata}\nspec: {spec}\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Workload]:
    def from_text(text: str, image: ImageConfig | None = None) -> Workload:
        path = tmp_path / "pod.yaml"
        path.write_text(text)
        (workload,) = read_manifests(read_file(path), image)
        return workload

    return from_text
