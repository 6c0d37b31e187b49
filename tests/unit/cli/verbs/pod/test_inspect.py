"""`nri pod inspect` on a dry engine."""

from __future__ import annotations

import json

from tests.unit.cli.verbs.pod.conftest import Pod


def test_a_pod_has_its_containers_and_a_container_its_spec(pod: Pod) -> None:
    pod("run", "-f", "pod.yaml")
    document = json.loads(pod("inspect", "web").stdout)
    assert (
        document["status"]["metadata"]["namespace"] == "shop"
        and document["info"]["config"]["metadata"]["name"] == "web"
    )
    assert sorted(one["status"]["metadata"]["name"] for one in document["containers"]) == ["app", "side"]
    one = json.loads(pod("inspect", "shop/web/app").stdout)
    assert one["info"]["runtimeSpec"]["process"]["args"] == ["sleep", "9"]


def test_unknown_and_ambiguous_words_are_errors(pod: Pod) -> None:
    pod("run", "-f", "pod.yaml")
    empty = pod("inspect", "none")
    assert empty.returncode == 1 and 'no pod or container "none"' in empty.stderr
    pod(
        "run",
        "-f",
        "pod.yaml",
        text="kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app, image: b, args: [x]}]}",
    )
    assert '"web" matches several pods:' in pod("inspect", "web").stderr
    assert '"app" matches several containers:' in pod("inspect", "app").stderr
