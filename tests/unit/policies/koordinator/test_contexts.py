"""What a context says of resources that are not set."""

from nri.policies.koordinator.contexts import ContainerContext, PodContext, Resources


def test_nothing_is_set_until_something_is() -> None:
    assert not Resources().any_set
    assert Resources(cpuset="0-2").any_set
    assert Resources(cfs_quota=-1).any_set


def test_a_context_knows_nothing_by_itself() -> None:
    assert PodContext().resources is None
    assert PodContext().extended is None
    assert ContainerContext().pod == PodContext()
