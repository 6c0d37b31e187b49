"""Comparison, copies, text and JSON of all builders."""

from __future__ import annotations

import json
import pydoc
from typing import Any

import pytest

from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update


def test_a_builder_compares_by_content_and_kind() -> None:
    assert Update("c").set_cpu_shares(3) == Update("c").set_cpu_shares(3)
    assert Update("c").set_cpu_shares(3) != Update("c").set_cpu_shares(2)
    assert Adjustment() != m.ContainerAdjustment()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Adjustment())


def test_a_copy_is_independent() -> None:
    first = Adjustment().add_env("A", "1")
    second = first.copy().add_env("B", "2")
    assert first.env == {"A": "1"}
    assert second.env == {"A": "1", "B": "2"}


def test_repr_of_a_builder_shows_its_values() -> None:
    update = Update("id2").set_memory_limit(0).set_cpuset_cpus("0-3").set_ignore_failure()
    assert repr(update) == (
        "Update(container_id='id2', linux.resources.memory.limit=0, linux.resources.cpu.cpus='0-3', "
        "ignore_failure=True)"
    )
    adjustment = Adjustment().remove_env("A").add_annotation("k", "v").set_io_priority("BE").set_rdt_schemata(["x"])
    assert repr(adjustment) == (
        "Adjustment(annotations={'k': 'v'}, env=[{key='-A'}], linux.io_priority.class=IOPRIO_CLASS_BE, "
        "linux.rdt.schemata=['x'])"
    )
    assert repr(Adjustment()) == "Adjustment()"


def test_json_has_the_names_of_the_protobuf_fields() -> None:
    adjustment = Adjustment().add_cdi_device("v/c=d").set_oom_score_adj(5)
    assert json.loads(json.dumps(adjustment.to_json())) == {
        "CDIDevices": [{"name": "v/c=d"}],
        "linux": {"oomScoreAdj": {"value": "5"}},
    }


def test_a_builder_on_a_message_changes_that_message() -> None:
    message = m.ContainerUpdate(container_id="c")
    Update.of(message).set_cpu_shares(5)
    assert message.linux.resources.cpu.shares.value == 5
    with pytest.raises(TypeError, match=r"Adjustment.of\(\) requires a ContainerAdjustment"):
        Adjustment.of(message)


def test_help_works_on_the_builders() -> None:
    text = pydoc.plain(pydoc.render_doc(Adjustment))
    assert "set_memory_limit(self, limit_bytes" in text
    assert "Set the memory limit in bytes" in text


@pytest.mark.parametrize(
    ("created", "name", "messages"),
    [
        (Adjustment(), "set_env", "Adjustment has no set_env: did you mean add_env()?"),
        (Adjustment(), "add_mounts", "Adjustment has no add_mounts: did you mean add_mount()?"),
        (Adjustment(), "set_memory_limt", "Adjustment has no set_memory_limt: did you mean set_memory_limit()?"),
        (
            Adjustment(),
            "SetLinuxMemoryLimit",
            "Adjustment has no SetLinuxMemoryLimit: did you mean set_memory_limit()?",
        ),
        (Update("a"), "set_args", "Update has no set_args: help(Update) lists its methods"),
        (Update("a"), "private", "Update has no private: help(Update) lists its methods"),
    ],
)
def test_an_unknown_setter_is_an_error_with_the_nearest_name(created: Any, name: str, messages: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(created, name)
    assert str(caught.value) == messages
    assert not hasattr(created, name)


@pytest.mark.parametrize(
    ("created", "name", "messages"),
    [
        (Adjustment(), "resources", "Adjustment.resources is read-only: write with set_memory_limit()"),
        (Adjustment(), "hooks", "Adjustment.hooks is read-only: write with add_hook()"),
        (Update("a"), "container_id", "Update.container_id is read-only: write with set_container_id()"),
        (Update("a"), "resources", "Update.resources is read-only: write with set_memory_limit()"),
    ],
)
def test_an_assignment_is_an_error_that_names_the_setter(created: Any, name: str, messages: str) -> None:
    with pytest.raises(AttributeError) as caught:
        setattr(created, name, {})
    assert str(caught.value) == messages
    assert created in (Adjustment(), Update("a"))
