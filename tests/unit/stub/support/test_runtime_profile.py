"""Answers to runtimes with a part of NRI: unsupported fields are left out and logged, or refused."""

from __future__ import annotations

import logging

import pytest

from nri import Adjustment
from nri.api import messages as m
from nri.errors import NriError
from nri.stub.support.runtime_profile import RuntimeProfile

CONTAINER = m.Container(id="c1", linux=m.LinuxContainer(resources=m.LinuxResources(cpu=m.LinuxCPU(cpus="2-3"))))


def shape(runtime: str, adjustment: Adjustment) -> m.ContainerAdjustment:
    return RuntimeProfile(runtime, "10-p", is_strict=False).adjustment(adjustment.message, CONTAINER)


def limit(kind: str, hard: int, soft: int) -> Adjustment:
    return Adjustment().add_rlimit(kind, hard, soft)


UNSUPPORTED = {
    "docker": {
        "annotations": Adjustment().add_annotation("a", "b"),
        "args": Adjustment().set_args(["sh"]),
        "rlimits": limit("RLIMIT_NOFILE", 9, 9),
        "linux.resources.cpu": Adjustment().set_cpu_shares(5),
        "linux.resources.unified": Adjustment().add_unified("memory.high", "1"),
        "linux.oom_score_adj": Adjustment().set_oom_score_adj(5),
        "env (removal)": Adjustment().remove_env("A"),
        "mounts (removal)": Adjustment().remove_mount("/a"),
        'mounts (option "noexec")': Adjustment().add_mount("/a", "/b", options=["bind", "noexec"]),
    },
    "isulad": {
        "env": Adjustment().add_env("A", "1"),
        "hooks": Adjustment().add_hooks(m.Hooks(prestart=[m.Hook(path="/bin/true")])),
        "args": Adjustment().set_args(["sh"]),
        "mounts (removal)": Adjustment().remove_mount("/a"),
        "rlimits (soft limit below hard limit)": limit("RLIMIT_NOFILE", 9, 8),
        "linux.resources.blockio_class": Adjustment().set_blockio_class("slow"),
    },
}
ROWS = [(runtime, field, adjustment) for runtime, rows in UNSUPPORTED.items() for field, adjustment in rows.items()]


@pytest.mark.parametrize(("runtime", "field", "adjustment"), ROWS)
def test_an_unsupported_field_is_left_out_and_logged_once(runtime, field, adjustment, caplog) -> None:
    profile = RuntimeProfile(runtime, "10-p", is_strict=False)
    with caplog.at_level(logging.WARNING):
        shaped = [profile.adjustment(adjustment.message, CONTAINER) for _ in range(2)]
    shaped[0].ClearField("linux")  # an empty message stays
    assert shaped[0] == m.ContainerAdjustment()
    assert [
        record.getMessage().startswith(f"plugin 10-p: left out the adjustment's {field}: ") for record in caplog.records
    ] == [True]


@pytest.mark.parametrize(("runtime", "field", "adjustment"), ROWS)
def test_with_refuse_the_error_names_runtime_and_field(runtime, field, adjustment) -> None:
    with pytest.raises(NriError, match="cannot apply the adjustment's ") as caught:
        RuntimeProfile(runtime, "10-p", is_strict=True).adjustment(adjustment.message, CONTAINER)
    assert field in str(caught.value)


def test_docker_gets_variables_and_mounts_without_options_that_it_refuses() -> None:
    adjustment = Adjustment().add_env("A", "1").add_mount("/dst", "/src", options=["rbind", "ro"])
    shaped = shape("docker", adjustment)
    assert [(variable.key, variable.value) for variable in shaped.env] == [("A", "1")]
    assert [(mount.source, mount.destination, list(mount.options)) for mount in shaped.mounts] == [
        ("/src", "/dst", ["ro"])
    ]


def test_isulad_gets_cpus_and_memory_nodes_next_to_other_cpu_settings() -> None:
    cpu = shape("isulad", Adjustment().set_cpu_shares(512)).linux.resources.cpu
    assert (cpu.shares.value, cpu.cpus) == (512, "2-3")  # those of the container
    assert cpu.mems


def test_isulad_gets_a_memory_limit_without_cpus() -> None:
    resources = shape("isulad", Adjustment().set_memory_limit(1 << 20)).linux.resources
    assert resources.memory.limit.value == 1 << 20
    assert not resources.HasField("cpu")


def test_the_plugins_adjustment_is_not_changed() -> None:
    adjustment = Adjustment().add_annotation("a", "b")
    shape("docker", adjustment)
    assert dict(adjustment.message.annotations) == {"a": "b"}
