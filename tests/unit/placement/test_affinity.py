"""Affinity annotations, in both forms."""

from dataclasses import replace

import pytest

from nri.placement.affinity import affinities
from nri.placement.choices import Choices
from nri.placement.containers import Container, NoPlace
from tests.support.placement import container


def annotated(name: str, **values: str) -> Container:
    one = container(name, pod="pod")
    keys = {f"resource-policy.nri.io/{key.replace('_', '-')}": value for key, value in values.items()}
    one.pod = replace(one.pod, annotations=keys)
    return one


def test_the_short_form_is_mutual_and_within_the_pod() -> None:
    text = "main: [helper]\nother: [third]"
    for name, close in (("main", "helper"), ("helper", "main")):
        (entry,) = affinities(annotated(name, affinity=text))
        assert entry.weight == 1
        assert entry.holds(container(close, pod="pod"))
        assert not entry.holds(container(close, pod="elsewhere"))
    assert affinities(annotated("alone", affinity=text)) == []


def test_the_full_form_has_a_scope_and_a_bounded_weight() -> None:
    text = """
main:
- scope: {operator: AlwaysTrue}
  match: {key: name, operator: In, values: [noisy]}
  weight: 5000
"""
    (entry,) = affinities(annotated("main", anti_affinity=text))
    assert entry.weight == -1000
    assert entry.holds(container("noisy", pod="elsewhere"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "2: not valid YAML"),
        ("text", "must be a table of lists"),
        ("main: helper", "must be a table of lists"),
        ("main:\n- match: {key: nme, operator: Exists}", "'nme' is not a valid key"),
        ("other:\n- match: {key: name, operator: Equals}", "Equals takes 1 value"),
        ("main: [other]\nother: [{}]", "expected a mapping"),
        ("main:\n- {weight: 1}", "match"),
        (
            "main:\n" + "- match: {operator: AlwaysTrue}\n" * 101,
            "101 affinities of main; a container may have at most 100",
        ),
        (
            "".join(f"c{n}:\n" + "- match: {operator: AlwaysTrue}\n" * 99 for n in range(6)),
            "594 affinities; a pod may have at most",
        ),
        (
            f"main: [{', '.join(f'c{n}' for n in range(201))}]",
            "201 values to compare with; a container may have at most 200",
        ),
        (f"main:\n- match: {{key: name, operator: In, values: [{', '.join(['x'] * 201)}]}}", "202 values to compare"),
        (f"main:\n- match: {{key: ':,-{'name,' * 300}name', operator: Exists}}", "the key has 1507 characters"),
    ],
)
def test_an_invalid_affinity_refuses_the_container(text: str, words: str) -> None:
    for key in ("affinity", "anti_affinity"):
        start = f"place for [^:]*: annotation resource-policy.nri.io/{key.replace('_', '-')}"
        with pytest.raises(NoPlace, match=f"{start}:.*{words}"):
            affinities(annotated("main", **{key: text}))


def test_the_maximum_number_of_affinities_is_read() -> None:
    assert len(affinities(annotated("main", affinity="main:\n" + "- match: {operator: AlwaysTrue}\n" * 100))) == 100
    for text in ("", "main:", "main: []", "other:\n- match: {key: name, operator: Exists}"):
        assert affinities(annotated("main", affinity=text)) == []


def test_always_true_needs_no_key() -> None:
    """`always_true_needs_no_key`: nri-plugins refuses the container."""
    for text in ("{match: {operator: AlwaysTrue}}",
                 "{scope: {operator: AlwaysTrue}, match: {key: name, operator: Exists}}"):  # fmt: skip
        one = annotated("main", affinity=f"main: [{text}]")
        assert len(affinities(one)) == 1
        with pytest.raises(NoPlace, match="'' is not a valid key"):
            affinities(one, Choices.REFERENCE)
    for text in ("{match: {key: nme, operator: AlwaysTrue}}",
                 "{scope: {key: ':,-id,nme', operator: AlwaysTrue}, match: {key: id, operator: Exists}}"):  # fmt: skip
        one = annotated("main", affinity=f"main: [{text}]")
        assert len(affinities(one)) == 1
        with pytest.raises(NoPlace, match="'nme' is not a valid key"):
            affinities(one, Choices.REFERENCE)
    keyed = annotated("main", affinity="main: [{match: {key: name, operator: AlwaysTrue}}]")
    assert len(affinities(keyed, Choices.REFERENCE)) == 1
