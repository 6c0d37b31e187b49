"""What a context says of resources that are not set."""

from nri.policies.contexts import ContainerContext, PodContext


def test_a_context_knows_nothing_by_itself() -> None:
    assert PodContext().resources is None
    assert PodContext().extended is None
    assert ContainerContext().pod == PodContext()
