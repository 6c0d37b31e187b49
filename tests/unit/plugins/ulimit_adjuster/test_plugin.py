"""`ulimit-adjuster` sets the limits of the container's annotation and refuses invalid limits."""

from __future__ import annotations

import logging

import pytest

import nri
from nri.plugins.ulimit_adjuster.plugin import UlimitAdjuster
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.pruned import pruned

NEW = "ulimits.noderesource.dev/container.c0"
OLD = "ulimits.nri.containerd.io/container.c0"


def create(runtime: FakeRuntime, annotations: dict[str, str]) -> nri.Adjustment:
    if not runtime.plugins:
        runtime.add(UlimitAdjuster(), idx="10")
    reply = runtime.create_container(make_pod(annotations=annotations), make_container("c0"))
    adjustment: nri.Adjustment = pruned(reply.adjust)
    return adjustment


@pytest.mark.parametrize("annotations", [{}, {NEW: ""}, {NEW: "[]"}, {NEW: "~"}, {"other": "[1]"}])
def test_a_container_without_limits_is_unchanged(nri_runtime: FakeRuntime, annotations: dict[str, str]) -> None:
    assert create(nri_runtime, annotations) == nri.Adjustment()


def test_types_can_have_any_case_and_a_prefix(nri_runtime: FakeRuntime) -> None:
    reply = create(
        nri_runtime,
        {NEW: "- {type: RLIMIT_NOFILE, soft: 1024, hard: 4096}\n- {type: rlimit_memlock, hard: 5}\n- {type: nproc}"},
    )
    expected = nri.Adjustment().add_rlimit("RLIMIT_NOFILE", 4096, 1024).add_rlimit("RLIMIT_MEMLOCK", 5, 0)
    assert reply == expected.add_rlimit("RLIMIT_NPROC", 0, 0)


def test_the_largest_limit_is_accepted(nri_runtime: FakeRuntime) -> None:
    largest = (1 << 64) - 1
    reply = create(nri_runtime, {NEW: f"[{{type: core, soft: {largest}, hard: {largest}}}]"})
    assert reply == nri.Adjustment().add_rlimit("RLIMIT_CORE", largest, largest)


def test_the_old_domain_is_read_without_the_new_domain(nri_runtime: FakeRuntime) -> None:
    one, two = "[{type: cpu, hard: 1}]", "[{type: cpu, hard: 2}]"
    assert create(nri_runtime, {OLD: one}) == nri.Adjustment().add_rlimit("RLIMIT_CPU", 1, 0)
    assert create(nri_runtime, {OLD: one, NEW: two}) == nri.Adjustment().add_rlimit("RLIMIT_CPU", 2, 0)


def test_an_annotation_for_the_whole_pod_is_logged_as_without_effect(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    assert create(nri_runtime, {"ulimits.noderesource.dev": "[{type: cpu, hard: 1}]"}) == nri.Adjustment()
    lines = "annotation ulimits.noderesource.dev has no effect; write ulimits.noderesource.dev/container.NAME"
    assert any(lines in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{type: RLIMIT_FILES, hard: 1}]", "[0].type: must be RLIMIT_ followed by one of AS, CORE, "),
        ("[{hard: 1}]", "[0]: type is missing; add 'type: ...'"),
        ("[{type: cpu, soft: 2, hard: 1}]", "[0]: soft limit 2 exceeds hard limit 1; raise hard to at least 2"),
        (
            "[{type: cpu, hard: -1, soft: 2}]",
            "[0].hard: must not be negative: -1; write 18446744073709551615 for no limit",
        ),
        ("[{type: cpu, soft: 2}]", "[0]: soft limit 2 exceeds hard limit 0; add 'hard: ...'"),
        ("[{type: cpu, hard: unlimited}]", '[0].hard: "unlimited" is not a number; write a whole number'),
        (
            "[{type: cpu, hard: -1, soft: -1}]",
            "[0].hard: must not be negative: -1; write 18446744073709551615 for no limit",
        ),
        ("[{type: cpu}, {type: RLIMIT_CPU}]", '[1].type: "RLIMIT_CPU" is already at [0].type; remove one of the two'),
        ("{type: cpu}", "expected a list, not a mapping of keys to values; begin each of its items with '- '"),
    ],
)
@pytest.mark.parametrize("key", [NEW, OLD])
def test_a_wrong_value_is_refused_with_its_annotation(
    nri_runtime: FakeRuntime, key: str, text: str, message: str
) -> None:
    with pytest.raises(nri.PluginRejected) as raised:
        create(nri_runtime, {key: text})
    assert raised.value.reason.startswith(f"annotation {key}: {message}")


def test_changes_are_logged(nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    create(nri_runtime, {NEW: "[{type: cpu, hard: 2, sotf: 1}]"})
    lines = [one.getMessage().partition(" [pod")[0] for one in caplog.records if one.name.startswith("nri.plugin")]
    assert lines == [
        f'annotation {NEW}: [0].sotf: unknown key, ignored (did you mean "soft"?)',
        "limits: CPU 0:2",
    ]
