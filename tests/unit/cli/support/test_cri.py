"""The search for a container or pod, and cells of tables."""

from __future__ import annotations

import pytest

from nri.cli.errors import Failure
from nri.cli.support.cri import age, find_container, find_pod, state_name
from nri.cri.pb import api_pb2 as pb
from tests.support.cri_server import CriServer


@pytest.fixture
def server() -> CriServer:
    server = CriServer()
    server.add_pod("p1", "web")
    server.add_pod("p2", "db")
    server.add_container("aaa1", "p1", "app", attempt=1)
    server.add_container("bbb1", "p1", "app", state=pb.CONTAINER_EXITED)
    server.add_container("ccc1", "p2", "app")
    server.add_container("ddd1", "p2", "side")
    server.add_container("eee1", "p9", "lone")
    return server


def find(server: CriServer, word: str) -> str:
    return find_container(word, server.containers, {pod.id: pod for pod in server.pods}).id


@pytest.mark.parametrize(
    ("word", "results"),
    [("bb", "bbb1"), ("side", "ddd1"), ("web/app", "aaa1"), ("db/app", "ccc1"), ("web", "aaa1"), ("lone", "eee1")],
)
def test_a_container_is_found_by_id_name_or_pod(server: CriServer, word: str, results: str) -> None:
    assert find(server, word) == results


def test_an_ambiguous_word_lists_all_matches(server: CriServer) -> None:
    with pytest.raises(
        Failure, match=r'"app" matches several containers: aaa1 \(default/web/app\), ccc1 \(default/db/app\)'
    ):
        find(server, "app")
    with pytest.raises(Failure, match=r'no container "nope"\. try: nri pod ps -a'):
        find(server, "nope")


def test_of_several_containers_the_only_running_one_is_found(server: CriServer) -> None:
    server.containers[2].state = pb.CONTAINER_EXITED
    assert find(server, "app") == "aaa1"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (61, "1m"), (7300, "2h"), (200_000, "2d")])
def test_ages_are_short(seconds: int, text: str) -> None:
    assert age(1_000_000_000, now=1 + seconds) == text
    assert age(0) == ""


def test_states_are_words(server: CriServer) -> None:
    assert state_name(server.containers[1]) == "exited"
    assert state_name(pb.PodSandbox(state=pb.SANDBOX_NOTREADY)) == "notready"


def test_a_pod_is_found_by_id_name_or_namespace_and_name(server: CriServer) -> None:
    server.add_pod("p3", "web", namespace="shop")
    server.add_pod("q4", "over", state=pb.SANDBOX_NOTREADY)
    server.add_pod("q5", "over")
    for word, results in (("p1", "p1"), ("db", "p2"), ("shop/web", "p3"), ("over", "q5")):
        assert find_pod(word, server.pods).id == results
    with pytest.raises(Failure, match=r'"web" matches several pods: p1 \(default/web\), p3 \(shop/web\)'):
        find_pod("web", server.pods)
    with pytest.raises(Failure, match=r'no pod ""\. try: nri pod ps -a'):
        find_pod("", server.pods)
    assert find(server, "default/web/app") == "aaa1"


def test_a_pods_name_has_precedence_over_a_prefix_of_an_id(server: CriServer) -> None:
    server.add_pod("db7", "other")
    assert find_pod("db", server.pods).id == "p2"
