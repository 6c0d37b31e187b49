"""Annotations for the OCI runtime, and annotations that select a class."""

from __future__ import annotations

import pytest

from nri.engine.support.annotations import class_annotation, passed_annotations


@pytest.mark.parametrize(
    ("pattern", "name", "passes"),
    [
        ("example.com/*", "example.com/a", True),
        ("example.com/*", "example.com/a/b", False),
        ("*", "example.com/a", False),
        ("*", "plain", True),
        ("team-[a-c]", "team-b", True),
        ("team-[^a-c]", "team-b", False),
        ("Team", "team", False),
        ("*", "run.oci.handler", False),
        ("run.oci.*", "run.oci.handler", True),
        ("run.*", "run.oci.handler", False),
        ("org.systemd.property.CPUQuota", "org.systemd.property.CPUQuota", True),
        ("*/*", "module.wasm.image/variant", False),
    ],
)
def test_patterns_follow_go_and_powerful_annotations_must_be_named(pattern: str, name: str, passes: bool) -> None:
    assert passed_annotations({name: "x"}, [pattern]) == ({name: "x"} if passes else {})


ALL = {"rdt.resources.beta.kubernetes.io/pod": "pod", "rdt.resources.beta.kubernetes.io/container.c": "of-c"}


@pytest.mark.parametrize(
    ("container", "pod", "expected"),
    [
        ({"io.kubernetes.cri.rdt-class": "own"}, ALL, ("own", False)),
        ({}, ALL, ("of-c", True)),
        ({}, {"rdt.resources.beta.kubernetes.io/pod": "pod"}, ("pod", True)),
        (ALL, {}, None),
        ({}, {"rdt.resources.beta.kubernetes.io/container.other": "x"}, None),
    ],
)
def test_the_annotation_nearest_to_the_container_selects_its_class(
    container: dict[str, str], pod: dict[str, str], expected: tuple[str, bool] | None
) -> None:
    selection = class_annotation("rdt", "c", container, pod)
    assert (selection and (selection.class_name, selection.is_of_pod)) == expected
