"""Expressions against a container, and texts with references."""

from dataclasses import replace

import pytest

from nri.placement.expressions import Expression, expand, value_of
from tests.support.placement import container

ONE = container("main", pod="web", qos="Burstable", namespace="prod")
POD = replace(ONE.pod, labels={"app.kubernetes.io/name": "shop"})


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("Equals", "name", ["main"], True),
        ("Equals", "name", ["*"], True),
        ("NotEqual", "name", ["other"], True),
        ("NotEqual", "labels/none", ["x"], True),
        ("In", "qosclass", ["BestEffort", "Burstable"], True),
        ("NotIn", "namespace", ["prod"], False),
        ("Exists", "pod/labels/app.kubernetes.io/name", [], True),
        ("NotExist", "labels/none", [], True),
        ("Matches", "pod/name", ["w?b"], True),
        ("Matches", "labels/none", ["*"], False),
        ("MatchesNot", "pod/name", ["w*"], False),
        ("MatchesAny", "namespace", ["dev", "pr*"], True),
        ("MatchesNone", "namespace", ["dev"], True),
        ("AlwaysTrue", "", [], True),
        ("Equals", ":,-pod/name,name", ["web-main"], True),
        ("Equals", ":namespace:name", ["prod:main"], True),
    ],
)
def test_an_expression_selects_containers(operator: str, key: str, values: list[str], holds: bool) -> None:
    assert Expression(operator, key, values).holds(ONE, POD) is holds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operator", "key", "values"),
    [("Equals", "name", []), ("Exists", "name", ["x"]), ("Equals", "nme", ["x"]), ("Exists", "labels", []),
     ("Exists", "pod", []), ("MatchesAny", "name", ["a", "[" * 1025])],
)  # fmt: skip
def test_an_invalid_expression_is_refused(operator: str, key: str, values: list[str]) -> None:
    with pytest.raises(ValueError, match=r"takes|not a valid key|at most 1024"):
        Expression(operator, key, values)  # type: ignore[arg-type]


def test_references_in_a_text_are_expanded() -> None:
    text = "${pod/namespace}-$$-${pod/labels/app.kubernetes.io/name}"
    assert expand(text, ONE, POD) == ("prod-$-shop", True)
    assert expand("ns=$pod/namespace", ONE, POD) == ("ns=prod", True)
    assert expand("${labels/none}!", ONE, POD) == ("!", False)
    assert value_of("pod/name", ONE, None) is None
    for wrong in ("${name", "$", "${}", "$na{me"):
        with pytest.raises(ValueError, match="write a reference as"):
            expand(wrong, ONE, POD)
