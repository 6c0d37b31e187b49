"""Every kind of remark has a text."""

import pytest

from nri.config.runtimes.containerd.installations import INSTALLATIONS
from nri.config.runtimes.reading import Kind, Remark, RuntimeNri
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.remark_texts import switch_on_step, texts_of

PARTIES = dict.fromkeys(
    ("reason", "key", "suggestion", "right", "table", "path", "first", "lost", "value", "version", "newest", "main",
     "other", "name", "fix", "releases", "off", "on", "pattern"),
    "a party",
)  # fmt: skip


@pytest.mark.parametrize("runtime", ["containerd", "cri-o", "isulad"])
def test_every_kind_has_a_text_and_a_level(runtime: str) -> None:
    for kind in Kind:
        texts = texts_of(runtime, Remark(kind, "/f", {**PARTIES, "seconds": 5.0, "type": bool}))
        assert texts.what, kind
        assert texts.level in {"problem", "warning", "note"}, kind


def test_a_release_that_refuses_the_file_is_a_note_with_the_reason() -> None:
    failure = Remark(Kind.UNKNOWN_VERSION, "/f:1", {"version": 3, "newest": 2})
    texts = texts_of("containerd", Remark(Kind.RELEASES_REFUSE, "/f", {"releases": "1.7", "failure": failure}))
    assert (texts.level, "version 3" in texts.what) == ("note", True)


def test_a_file_that_a_distribution_writes_anew_is_changed_by_its_template() -> None:
    containerd = next(row for row in RUNTIMES if row.name == "containerd")
    assert switch_on_step(containerd, RuntimeNri("containerd")) == containerd.switch_on
    for row in INSTALLATIONS:
        step = switch_on_step(containerd, RuntimeNri("containerd", path=row.path))
        assert f"nri config-manager --file {row.path}" in step
        assert ("change its template" in step, row.name in step) == (bool(row.templates), True)
