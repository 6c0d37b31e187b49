"""The client follows objects on a real API server, also after a crash and after the server compacts its history."""

from __future__ import annotations

import base64
import json
import logging
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nri.kube.client import NODE_SLOS, NODES, PODS, Apiserver, ApiserverError, Follower, Kind, connect
from tests.apiserver.following import NODE, Told, make_crds, node, pod, slo, value
from tests.kubernetes.control_plane import ControlPlane
from tests.support.waiting import wait_for

Follow = Callable[..., tuple[Follower, Told]]


@pytest.fixture(scope="module", autouse=True)
def crds(api: ControlPlane) -> None:
    """The custom resources."""
    make_crds(api)


@pytest.fixture
def client(api: ControlPlane) -> Iterator[Apiserver]:
    """The client, as the administrator."""
    with connect(api.kubeconfig) as connection:
        yield connection


@pytest.fixture
def follow(client: Apiserver) -> Iterator[Follow]:
    """Start following."""
    followers: list[Follower] = []

    def start(kind: object, **options: object) -> tuple[Follower, Told]:
        listener = Told()
        followers.append(Follower(client, kind, listener, **options))
        followers[-1].start()
        wait_for(lambda: followers[-1].synced or followers[-1].problem, "list")
        return followers[-1], listener

    yield start
    for row in followers:
        row.stop()


@pytest.fixture
def pods(api: ControlPlane) -> Iterator[None]:
    """The pods of a test go with it."""
    yield
    api.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


@pytest.mark.usefixtures("pods")
def test_pods_of_one_node_are_followed_from_creation_to_removal(api: ControlPlane, follow: Follow) -> None:
    api.apply(pod("old"), pod("other", node="node-2"))
    follower, listener = follow(PODS, fields=f"spec.nodeName={NODE}")
    assert listener.last == {"old": "1"}
    api.apply(pod("new"), pod("another", node="node-2"))
    wait_for(lambda: listener.last == {"old": "1", "new": "1"}, "new pod")
    api.apply(pod("old", v="2"))
    wait_for(lambda: listener.last == {"old": "2", "new": "1"}, "changed pod")
    api.kubectl("delete", "pod", "old", "--force", "--grace-period=0")
    wait_for(lambda: listener.last == {"new": "1"}, "end of the pod")
    assert follower.problem == ""


@pytest.mark.usefixtures("pods")
def test_large_pods_use_the_memory_of_their_used_fields_and_a_costly_pod_is_skipped(
    api: ControlPlane, follow: Follow, client: Apiserver
) -> None:
    api.apply(pod("small"))
    for name in ("large", "costly"):
        thing = pod(name)
        if name == "large":
            thing["spec"]["containers"][0]["env"] = [{"name": "A"}] * 90_000
        else:
            thing["metadata"]["labels"] |= {f"k{number}": "v" for number in range(20_000)}
        api.kubectl("create", "-f", "-", stdin=json.dumps(thing))
    objects, _ = client.list(PODS, f"spec.nodeName={NODE}")
    assert {name for _, name in objects.objects} == {"small", "large"}
    assert "env" not in objects.objects["default", "large"]["spec"]["containers"][0]
    assert objects.problem.startswith("1 object omitted: default/costly: ") and "short texts" in objects.problem
    follower, listener = follow(PODS, fields=f"spec.nodeName={NODE}")
    assert listener.last == {"small": "1", "large": "1"} and "default/costly" in follower.left_out
    api.kubectl("delete", "pod", "costly", "--force", "--grace-period=0")
    api.apply(pod("small", v="2"))
    wait_for(lambda: listener.last == {"small": "2", "large": "1"}, "changed pod")
    assert follower.left_out == ""
    patch = json.dumps({"metadata": {"labels": {f"k{number}": "v" for number in range(20_000)}}})
    (api.folder / "patch.json").write_text(patch)
    api.kubectl("patch", "pod", "small", "--patch-file", str(api.folder / "patch.json"))
    wait_for(lambda: listener.last == {"large": "1"}, "a pod that grew too costly")


def test_custom_resources_are_followed_by_name(api: ControlPlane, follow: Follow) -> None:
    api.apply(slo({}), slo({}, name="node-2"))
    _, listener = follow(NODE_SLOS, fields=f"metadata.name={NODE}")
    assert listener.last == {NODE: "1"}
    api.apply(slo({}, v="2"), slo({}, name="node-2", v="2"))
    wait_for(lambda: listener.last == {NODE: "2"}, "changed resource")
    api.kubectl("delete", "nodeslos", "--all")
    wait_for(lambda: listener.last == {}, "end of the resource")


def test_a_list_of_several_pages_is_complete(
    api: ControlPlane, client: Apiserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.kube.client.connection.PAGE_OBJECTS", 20)
    api.apply(*(slo({}, name=f"many-{number}") for number in range(50)))
    objects, version = client.list(NODE_SLOS)
    assert len(objects.objects) == 50
    assert version.isdigit()
    assert all("managedFields" not in item["metadata"] for item in objects.objects.values())
    api.kubectl("delete", "--raw", "/apis/slo.koordinator.sh/v1alpha1/nodeslos")


def test_the_follower_reconnects_to_a_restarted_apiserver_without_a_gap(api: ControlPlane, follow: Follow) -> None:
    api.apply(node(v="1"))
    follower, listener = follow(NODES)
    api.kill_apiserver()
    wait_for(lambda: follower.problem, "problem")
    assert "127.0.0.1" in follower.problem
    assert listener.last == {NODE: "1"}
    api.start_apiserver()
    api.apply(node(v="2"))
    wait_for(lambda: listener.last == {NODE: "2"}, "change after the restart")
    wait_for(lambda: not follower.problem, "end of the problem")
    api.kubectl("delete", "node", NODE)


def test_retries_slow_down_during_an_hour_without_an_apiserver(
    api: ControlPlane, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    api.apply(node(v="1"))
    now, pauses = [0.0], []
    over, up = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        if now[0] > 3600:
            over.set()
            up.wait(600)

    follower, listener = follow(NODES, clock=lambda: now[0], pause=pause)
    caplog.set_level(logging.WARNING)
    api.kill_apiserver()
    assert over.wait(120)
    api.start_apiserver()
    up.set()
    assert 3600 / 30 <= len(pauses) < 600, "so often was the apiserver asked in an hour"
    assert max(pauses) <= 30
    assert listener.last == {NODE: "1"}
    assert len([record for record in caplog.records if "stays in force" in record.message]) < 10
    api.apply(node(v="2"))
    wait_for(lambda: listener.last == {NODE: "2"} and not follower.problem, "change after the hour")
    api.kubectl("delete", "node", NODE)


def test_after_a_compaction_changed_objects_are_listed_again(api: ControlPlane, follow: Follow) -> None:
    api.apply(node("kept", v="1"), node("lost", v="1"))
    # It is kept away by a pause that ends when all has happened.
    gate = threading.Event()
    follower, listener = follow(NODES, pause=lambda seconds: gate.wait(600))
    api.kill_apiserver()
    wait_for(lambda: follower.problem, "problem")
    api.start_apiserver()
    api.apply(node("kept", v="2"))
    api.kubectl("delete", "node", "lost")
    compact(api)
    api.kill_apiserver()
    api.start_apiserver()
    assert listener.last == {"kept": "1", "lost": "1"}
    gate.set()
    wait_for(lambda: listener.last == {"kept": "2"}, "list after 410")
    api.kubectl("delete", "node", "kept")


def compact(api: ControlPlane) -> None:
    """Have etcd forget all but what is now."""

    def ask(path: str, body: dict[str, object]) -> dict[str, object]:
        request = urllib.request.Request(f"{api.etcd}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            document: dict[str, object] = json.load(answer)
        return document

    reply = ask("/v3/kv/range", {"key": base64.b64encode(b"none").decode()})
    ask("/v3/kv/compaction", {"revision": reply["header"]["revision"], "physical": True})


def test_a_compacted_version_and_a_future_version_are_expired(api: ControlPlane, client: Apiserver) -> None:
    api.apply(node(v="1"))
    compact(api)
    with pytest.raises(ApiserverError) as forgotten:
        with client.watch(NODES, "1") as watch:
            list(watch.events())
    assert forgotten.value.expired, forgotten.value
    with pytest.raises(ApiserverError) as to_come:
        client.list(NODES, version="99999999")
    assert to_come.value.expired, to_come.value
    api.kubectl("delete", "node", NODE)


#: A resource version that the apiserver does not know.
LATER = "99999999"


class Followed:
    """An apiserver that has lost its data: its first list is empty and has a version that the apiserver then rejects.

    Attributes:
        asked: the version of each list that was asked for.
    """

    def __init__(self, api: Apiserver) -> None:
        self._api = api
        self.asked: list[str] = []

    def watch(self, kind: Kind, version: str, *arguments: Any) -> Any:
        if version == LATER:
            raise ApiserverError("watch nodes", 410, "too old resource version")
        return self._api.watch(kind, version, *arguments)

    def list(self, kind: Kind, fields: str, version: str) -> tuple[list[Any], str]:
        self.asked.append(version)
        return self._api.list(kind, fields, version) if len(self.asked) > 1 else ([], LATER)


def test_an_etcd_restored_from_a_backup_is_accepted(api: ControlPlane, client: Apiserver) -> None:
    api.apply(node(v="1"))
    listener, followed = Told(), Followed(client)
    follower = Follower(followed, NODES, listener, pause=lambda seconds: None)  # type: ignore[arg-type]
    follower.start()
    wait_for(lambda: listener.last == {NODE: "1"}, "list of the existing nodes")
    follower.stop()
    assert followed.asked[:2] == ["0", LATER], "first it insists on what it knew"
    assert followed.asked[-1] == ""
    api.kubectl("delete", "node", NODE)


def test_a_missing_resource_type_is_reported_and_requested_again(api: ControlPlane, client: Apiserver) -> None:
    api.kubectl("delete", "crd", "nodeslos.slo.koordinator.sh")
    listener = Told()
    follower = Follower(client, NODE_SLOS, listener, pause=lambda seconds: None)
    try:
        wait_for(lambda: follower.run_once() and follower.problem, "problem")
        assert "CustomResourceDefinition" in follower.problem
        assert listener.last is None
    finally:
        make_crds(api)
    follower.start()
    wait_for(lambda: follower.synced and not follower.problem, "list")
    follower.stop()


def test_stopping_does_not_wait_for_the_end_of_a_watch(api: ControlPlane, follow: Follow) -> None:
    before = {*threading.enumerate()}
    follower, listener = follow(NODES)
    api.apply(node(v="1"))
    wait_for(lambda: listener.last == {NODE: "1"}, "watch")
    (thread,) = {*threading.enumerate()} - before
    follower.stop()
    assert not thread.is_alive(), "it waits for the end of its watch"
    api.kubectl("delete", "node", NODE)


def test_events_of_one_moment_arrive_in_order(api: ControlPlane, follow: Follow) -> None:
    _, listener = follow(NODES)
    for version in range(2, 8):
        api.apply(node(v=str(version)))
    wait_for(lambda: listener.last == {NODE: "7"}, "last change")
    received = [row[NODE] for row in listener.seen if NODE in row]
    assert received == sorted(received)
    api.kubectl("delete", "node", NODE)


@pytest.mark.usefixtures("pods")
def test_an_eviction_ends_the_pod_with_the_uid_and_not_another_pod_of_the_same_name(
    api: ControlPlane, client: Apiserver
) -> None:
    api.apply(pod("victim"))
    uid = api.get("pod", "victim")["metadata"]["uid"]
    with pytest.raises(ApiserverError) as refused:
        client.evict("default", "victim", uid="3b241101-e2bb-4255-8caf-4136c566a962")
    assert refused.value.status == 409, refused.value
    client.evict("default", "victim", uid=uid, grace_s=7)
    assert api.get("pod", "victim")["metadata"]["deletionGracePeriodSeconds"] == 7
    with pytest.raises(ApiserverError) as missing:
        client.evict("default", "nobody")
    assert missing.value.status == 404


@pytest.mark.usefixtures("pods")
def test_a_disruption_budget_forbids_an_eviction(api: ControlPlane, client: Apiserver) -> None:
    api.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "kept", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"v": "kept"}}},
        },
        pod("kept", v="kept"),
    )
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.kubectl("patch", "pod", "kept", "--subresource=status", "-p", json.dumps(status))
    with pytest.raises(ApiserverError) as refused:
        client.evict("default", "kept")
    assert refused.value.status == 429
    assert value(api.get("pod", "kept")) == "kept"
    api.kubectl("delete", "pdb", "kept")
