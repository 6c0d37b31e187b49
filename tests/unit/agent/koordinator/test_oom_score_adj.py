"""The OOM score of a container."""

import pytest

from nri.agent.koordinator import oom_score_adj
from nri.agent.model import Container, HookError, Pod


def container(score: str = "", scores: str = "", **more: bool) -> Container:
    source = {oom_score_adj.ANNOTATION_OOM_SCORE: score, oom_score_adj.ANNOTATION_OOM_SCORES: scores}
    annotations = {key: value for key, value in source.items() if value}
    return Container(Pod(annotations=annotations), name="c1", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "value"),
    [
        (container("-500"), -500),
        (container("-500", '{"c1":100}'), 100),
        (container("-500", '{"c2":100}'), -500),
        (container("", '{"c2":100}'), None),
        (container(), None),
        (container("-1000"), -1000),
        (container("1000"), 1000),
        (container("5", sandbox=True), None),
    ],
)
def test_a_containers_score_overrides_its_pods(context: Container, value: int | None) -> None:
    assert oom_score_adj.container(context).changes.knobs.get("oom_score_adj") == value


@pytest.mark.parametrize(
    "context",
    [
        container("x"),
        container("1.5"),
        container("1001"),
        container("-1001"),
        container("5", "[]"),
        container("9" * 30),
    ],
)
def test_an_invalid_score_is_an_error(context: Container) -> None:
    with pytest.raises(HookError):
        oom_score_adj.container(context)
