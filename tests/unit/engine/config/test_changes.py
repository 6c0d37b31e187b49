"""Which changed settings a running engine adopts, and which wait for its next start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.config.listing import keys
from nri.engine.config import CgroupConfig, ContainerConfig, EngineConfig, ImageConfig, OciRuntime, Registry
from nri.engine.config.changes import FIXED_KEYS, compare_settings

PRESENT = EngineConfig()


def test_equal_settings_change_nothing() -> None:
    assert compare_settings(PRESENT, EngineConfig()) == (PRESENT, (), ())


def test_changed_settings_are_adopted_by_key() -> None:
    new = replace(
        PRESENT,
        log_level="debug",
        containers=ContainerConfig(pids_limit=7),
        images=ImageConfig(registries=(Registry("a", blocked=True), Registry("b"))),
    )
    changes = compare_settings(PRESENT, new)
    assert changes.config == new and not changes.deferred
    assert set(changes.adopted) == {"log_level", "containers.pids_limit", "images.registries"}


def test_a_key_of_the_start_keeps_its_value_and_is_named() -> None:
    new = replace(
        PRESENT,
        socket=Path("/other.sock"),
        cgroups=CgroupConfig(parent="/other"),
        images=ImageConfig(snapshots="copy", size_limit=7),
    )
    changes = compare_settings(PRESENT, new)
    assert (changes.config.socket, changes.config.cgroups, changes.config.images.snapshots) == (
        PRESENT.socket,
        PRESENT.cgroups,
        "auto",
    )
    assert changes.adopted == ("images.size_limit",)
    assert set(changes.deferred) == {"socket", "cgroups.parent", "images.snapshots"}


def test_a_removed_runtime_handler_stays_and_a_new_one_is_added() -> None:
    new = replace(PRESENT, runtimes={"runc": OciRuntime("runc"), "kata": OciRuntime("kata")})
    changes = compare_settings(PRESENT, new)
    assert list(changes.config.runtimes) == ["runc", "crun", "kata"]
    assert "runtimes.kata.path" in changes.adopted and "runtimes.crun.path" in changes.deferred


@pytest.mark.parametrize("key", FIXED_KEYS)
def test_every_key_of_the_start_exists(key: str) -> None:
    assert any(row.key == key or row.key.startswith(f"{key}.") for row in keys(EngineConfig))
