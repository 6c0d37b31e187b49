"""The plugin for the engine and containerd: every event, and the adjustment that the pod's annotation has.

The twin of the tests' `fieldplugin -kind logger`: it reads the annotation of its name and does what that says.
"""

from __future__ import annotations

import json
from typing import Any

import nri


class Bench(nri.Plugin):
    """The plugin; its name is in the annotation."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        text = pod.annotations.get(f"{NAME}.test/CreateContainer")
        if text is None:
            return None
        settings = json.loads(text)["adjust"]
        adjustment = nri.Adjustment()
        for row in settings["env"]:
            adjustment.add_env(row["key"], row["value"])
        for key, value in settings["annotations"].items():
            adjustment.add_annotation(key, value)
        return adjustment

    def synchronize(self, pods: Any, containers: Any) -> None:
        print('{"event": "started"}', flush=True)

    def run_pod_sandbox(self, pod: Any) -> None:
        """Take it; as all below."""

    def stop_pod_sandbox(self, pod: Any) -> None:
        """Take it."""

    def remove_pod_sandbox(self, pod: Any) -> None:
        """Take it."""

    def post_create_container(self, pod: Any, container: Any) -> None:
        """Take it."""

    def start_container(self, pod: Any, container: Any) -> None:
        """Take it."""

    def post_start_container(self, pod: Any, container: Any) -> None:
        """Take it."""

    def update_container(self, pod: Any, container: Any, resources: Any) -> None:
        """Take it."""

    def post_update_container(self, pod: Any, container: Any) -> None:
        """Take it."""

    def stop_container(self, pod: Any, container: Any) -> None:
        """Take it."""

    def remove_container(self, pod: Any, container: Any) -> None:
        """Take it."""


if __name__ == "__main__":
    import sys

    NAME = sys.argv[sys.argv.index("--name") + 1]
    Bench.main()
