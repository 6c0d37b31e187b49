"""The search for a container by id, prefix of an id, or name."""

from __future__ import annotations

import pytest

from nri.kube.container_search import NamedContainer, any_of, find

#: The newest first.
KNOWN = [
    NamedContainer("aaa2", "app", "web", "default", "p1", runs=True),
    NamedContainer("aaa1", "app", "web", "default", "p1", runs=False),
    NamedContainer("bbb1", "app", "db", "default", "p2", runs=True),
    NamedContainer("bbb2", "side", "db", "default", "p2", runs=True),
    NamedContainer("db1", "proxy", "edge", "prod", "p3", runs=True),
    NamedContainer("eee1", "lone", "", "", "p9", runs=True),
    NamedContainer("fff1", "", "", "", "", runs=True),
]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("aaa1", ["aaa1"]),
        ("aaa", ["aaa2"]),
        ("web", ["aaa2"]),
        ("web/app", ["aaa2"]),
        ("default/web", ["aaa2"]),
        ("default/web/app", ["aaa2"]),
        ("app", ["aaa2", "bbb1"]),
        ("db", ["bbb1", "bbb2"]),
        ("db1", ["db1"]),
        ("prod/edge/proxy", ["db1"]),
        ("lone", ["eee1"]),
        ("f", ["fff1"]),
        ("prod/web", []),
        ("/lone", []),
        ("x", []),
        ("", []),
    ],
)
def test_precedence_is_id_name_prefix_of_an_id(word: str, expected: list[str]) -> None:
    assert [one.id for one in find(word, KNOWN)] == expected


def test_of_several_containers_the_only_running_one_is_found() -> None:
    containers = [one._replace(runs=one.id == "bbb1") for one in KNOWN]
    assert [one.id for one in find("app", containers)] == ["bbb1"]


def test_containers_of_unknown_pods_are_different_containers() -> None:
    assert len(find("c", [NamedContainer(f"c{number}", "app", "", "", "", runs=False) for number in range(2)])) == 2


def test_an_ambiguous_word_lists_the_first_matches() -> None:
    named_containers = [
        NamedContainer(f"c{number}" * 9, "app", f"web{number}", "shop", f"p{number}", runs=True) for number in range(7)
    ]
    text = any_of("app", named_containers)
    assert text.startswith('"app" matches several containers: c0c0c0c0c0c0c (shop/web0/app), c1c1')
    assert text.endswith("c4c4c4c4c4c4c (shop/web4/app), ...")
    assert any_of("f", [KNOWN[5], KNOWN[6]]) == '"f" matches several containers: eee1 (lone), fff1'
