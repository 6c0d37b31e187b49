"""Affinity annotations, in both forms."""

from dataclasses import replace

from nri.policies.placement.affinity import affinities
from nri.policies.placement.containers import Container
from tests.support.placement import container


def annotated(name: str, **values: str) -> Container:
    one = container(name, pod="pod")
    keys = {f"resource-policy.nri.io/{key.replace('_', '-')}": value for key, value in values.items()}
    one.pod = replace(one.pod, annotations=keys)
    return one


def test_the_short_form_is_mutual_and_within_the_pod() -> None:
    text = "main: [helper]\nother: [third]"
    for name, near in (("main", "helper"), ("helper", "main")):
        (found,) = affinities(annotated(name, affinity=text))
        assert found.weight == 1
        assert found.holds(container(near, pod="pod"))
        assert not found.holds(container(near, pod="elsewhere"))
    assert affinities(annotated("alone", affinity=text)) == []


def test_the_full_form_has_a_scope_and_a_bounded_weight() -> None:
    text = """
main:
- scope: {operator: AlwaysTrue}
  match: {key: name, operator: In, values: [noisy]}
  weight: 5000
"""
    (found,) = affinities(annotated("main", anti_affinity=text))
    assert found.weight == -1000
    assert found.holds(container("noisy", pod="elsewhere"))


def test_an_affinity_that_cannot_be_read_is_told() -> None:
    for text in ("[", "main: helper", "main:\n- match: {key: nme, operator: Exists}"):
        one = annotated("main", affinity=text)
        assert affinities(one) == []
        assert len(one.doubts) == 1


def test_more_affinities_than_can_be_asked_about_all_containers_are_told_and_none_is_read() -> None:
    text = "main:\n" + "- match: {operator: AlwaysTrue}\n" * 101
    one = annotated("main", affinity=text)
    assert affinities(one) == []
    assert one.doubts == ["annotation resource-policy.nri.io/affinity: 101 affinities of main, at most 100 are read"]
    assert len(affinities(annotated("main", affinity=text.removesuffix("- match: {operator: AlwaysTrue}\n")))) == 100
