"""The plugin for the engine and containerd: every event, and the adjustment that the pod's annotation has.

The counterpart of the tests' `fieldplugin -kind logger`: it applies the annotation with its name.
"""

from __future__ import annotations

import json
from typing import Any

import nri


class Bench(nri.Plugin):
    """Subscribes to every event, and applies the adjustment in an annotation."""

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
        pass  # as all below: subscribes to the event

    def stop_pod_sandbox(self, pod: Any) -> None:
        pass

    def remove_pod_sandbox(self, pod: Any) -> None:
        pass

    def post_create_container(self, pod: Any, container: Any) -> None:
        pass

    def start_container(self, pod: Any, container: Any) -> None:
        pass

    def post_start_container(self, pod: Any, container: Any) -> None:
        pass

    def update_container(self, pod: Any, container: Any, resources: Any) -> None:
        pass

    def post_update_container(self, pod: Any, container: Any) -> None:
        pass

    def stop_container(self, pod: Any, container: Any) -> None:
        pass

    def remove_container(self, pod: Any, container: Any) -> None:
        pass


if __name__ == "__main__":
    import sys

    NAME = sys.argv[sys.argv.index("--name") + 1]
    Bench.main()
