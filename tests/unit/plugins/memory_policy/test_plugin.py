"""`memory-policy`: policies through NRI or through an injected program, and errors.

The answers with `injectMpolset` are held against the original's in tests/conformance.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import cpuset
from nri.plugins.memory_policy import plugin
from nri.plugins.memory_policy.plugin import MemoryPolicyPlugin, resolve
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.needs import need_tool
from tests.support.placement import guest, write_machine
from tests.support.pruned import pruned

SOURCE = Path(plugin.__file__).with_name("mpolset.c")


def attach(runtime: FakeRuntime, folder: Path, **config: Any) -> None:
    machine = write_machine(folder / "machine", guest())
    runtime.add(MemoryPolicyPlugin(), idx="95", config=json.dumps({"hostRoot": str(machine), **config}))


def create(runtime: FakeRuntime, annotations: dict[str, str]) -> Any:
    pod = make_pod(annotations={key.replace("@", ".memory-policy.nri.io"): text for key, text in annotations.items()})
    return pruned(runtime.create_container(pod, make_container("c0", args=["app"])).adjust)


def test_without_injection_the_policy_is_set_through_nri(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    places = {"name": "near", "policy": {"mode": "MPOL_BIND", "nodes": "max-dist:11", "flags": ["MPOL_F_STATIC_NODES"]}}
    attach(nri_runtime, tmp_path, classes=[places])
    assert create(nri_runtime, {"class@": "near"}) == nri.Adjustment().set_memory_policy(
        "MPOL_BIND", "0-3", ["MPOL_F_STATIC_NODES"]
    )


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"policy@": "{mode: BIND}"}, "annotation policy@: mode: must be one of MPOL_DEFAULT, "),
        ({"policy@": "{mode: MPOL_BIND}"}, "annotation policy@: nodes: must be set for MPOL_BIND: all, allowed-mems"),
        ({"policy@": "{mode: MPOL_BIND, nodes: near}"}, "annotation policy@: nodes: must be all, allowed-mems"),
        ({"policy@": "{mode: MPOL_BIND, nodes: 9}"}, "annotation policy@: nodes: must exist on this machine"),
        ({"policy@": "{mode: MPOL_BIND, nodes: 'max-dist:1'}"}, 'annotation policy@: nodes: must not be empty: "max'),
        (
            {"policy@": "{mode: MPOL_BIND, nodes: 0, flags: [F]}"},
            "annotation policy@: flags: must be among MPOL_F_STATIC",
        ),
        (
            {"policy@": "{mode: MPOL_LOCAL, flags: [MPOL_F_STATIC_NODES]}"},
            "annotation policy@: flags: must be empty for MPOL_LOCAL",
        ),
        (
            {"policy@": "{mode: MPOL_INTERLEAVE, nodes: 0, flags: [MPOL_F_NUMA_BALANCING]}"},
            "annotation policy@: flags: must not contain MPOL_F_NUMA_BALANCING for MPOL_INTERLEAVE: only MPOL_BIND and",
        ),
        (
            {"policy@": "{mode: MPOL_BIND, nodes: 0, flags: [MPOL_F_RELATIVE_NODES, MPOL_F_STATIC_NODES]}"},
            "annotation policy@: flags: must not contain both MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES",
        ),
        ({"policy@": "{mode: MPOL_LOCAL, nodes: all}"}, "annotation policy@: nodes: must be empty for MPOL_LOCAL"),
        ({"policy@": "{mode: MPOL_DEFAULT, nodes: 0}"}, "annotation policy@: nodes: must be empty for MPOL_DEF"),
        ({"policy@": "{nodes: all}"}, "annotation policy@: mode is missing"),
        ({"policy@": "{mode: MPOL_LOCAL}", "class@": "x"}, "annotation policy@: class@ is set as well"),
        ({"class@": "x"}, 'annotation class@: class "x" not found; existing classes: none'),
        ({"nodes@": "x"}, "annotation nodes@: unknown annotation; write policy@ or class@"),
    ],
)
def test_an_invalid_annotation_refuses_the_container_with_its_key(
    nri_runtime: FakeRuntime, tmp_path: Path, annotations: dict[str, str], message: str
) -> None:
    attach(nri_runtime, tmp_path)
    with pytest.raises(nri.PluginRejected) as raised:
        create(nri_runtime, annotations)
    assert raised.value.reason.startswith(message.replace("@", ".memory-policy.nri.io"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"classes": [{"name": "a", "policy": {"mode": "BIND", "nodes": "all"}}]}, "mode must be one of"),
        ({"classes": [{"name": "a", "policy": {"mode": "MPOL_BIND", "nodes": "0-"}}]}, "nodes must be a list: '0-' is"),
        (
            {"classes": [{"name": "a", "policy": {"mode": "MPOL_BIND", "nodes": "max-dist:x"}}]},
            "be max-dist: and a distance",
        ),
        ({"classes": [{"name": "", "policy": {"mode": "MPOL_LOCAL"}}]}, "the name of a class must not be empty"),
        ({"classes": [{"name": "a"}]}, "policy.mode: missing"),
        ({"classes": [{"name": "a", "policy": {"mode": "MPOL_LOCAL"}}] * 2}, 'classes: duplicate name "a"'),
        ({"injectMpolset": True, "mpolset": "/nonesuch/mpolset"}, "cannot copy /nonesuch/mpolset"),
    ],
)
def test_an_invalid_configuration_is_an_error_with_its_key(
    nri_runtime: FakeRuntime, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(nri.NriError, match=message):
        attach(nri_runtime, tmp_path, **config)


def test_a_missing_program_is_an_error_with_the_build_command(
    nri_runtime: FakeRuntime, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "program")])
    with pytest.raises(nri.NriError, match=r"program mpolset not found.*cc -O2 -static -o \S+ \S+/mpolset.c"):
        attach(nri_runtime, tmp_path, injectMpolset=True)


def test_the_program_is_copied_without_following_links(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    program = tmp_path / "mpolset"
    program.write_bytes(b"program")
    folder = tmp_path / "machine" / "mnt"
    attach(nri_runtime, tmp_path, injectMpolset=True, mpolset=str(program))
    copy = folder / "nri-memory-policy-mpolset" / "mpolset"
    assert copy.read_bytes() == b"program" and copy.stat().st_mode & 0o777 == 0o755
    copy.unlink()
    copy.parent.rmdir()
    copy.parent.symlink_to(tmp_path)
    with FakeRuntime() as runtime, pytest.raises(nri.NriError, match="is a link, or other users may write"):
        attach(runtime, tmp_path, injectMpolset=True, mpolset=str(program))


def test_a_node_without_cpus_is_in_the_package_of_the_nearest() -> None:
    topology = guest()
    node = dataclasses.replace(
        topology.nodes[3], number=4, cpus=frozenset(), distances={0: 30, 1: 30, 2: 28, 3: 17, 4: 10}
    )
    nodes = {n: dataclasses.replace(old, distances={**old.distances, 4: 17}) for n, old in topology.nodes.items()}
    wider = dataclasses.replace(topology, nodes={**nodes, 4: node})
    assert resolve("cpu-packages", wider, frozenset({15}), frozenset()) == {2, 3, 4}


@pytest.fixture(scope="module")
def mpolset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, built with the command from its page."""
    need_tool("cc")
    built = str(tmp_path_factory.mktemp("mpolset") / "mpolset")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", built, str(SOURCE)], check=True)
    return built


@pytest.mark.parametrize("flags", [["-mode=MPOL_BIND", "-nodes", "0"], ["--mode", "2", "--nodes=0", "-vv", "--"]])
def test_the_started_command_has_the_memory_policy(mpolset: str, flags: list[str]) -> None:
    process = subprocess.run([mpolset, *flags, mpolset], capture_output=True, text=True, check=True)
    assert process.stdout == "Current memory policy: MPOL_BIND (2), nodes: 0\n"


def test_the_program_finds_the_command_in_path_and_passes_its_arguments(mpolset: str) -> None:
    command = ["sh", "-c", 'echo "$0 $1"', "--", "-x y"]
    process = subprocess.run(
        [mpolset, "--mode", "MPOL_LOCAL", "--", *command], capture_output=True, text=True, check=True
    )
    assert process.stdout == "-- -x y\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mode", "BIND", "true"], "invalid --mode: BIND"),
        (["--nodes", "3-1", "true"], "invalid --nodes: 3-1"),
        (["--nodes", "1024", "true"], "invalid --nodes: 1024"),
        (["--nodes", "1;2", "true"], "invalid --nodes: 1;2"),
        (["--flags", "STATIC", "true"], "invalid --flags: STATIC"),
        (["--mode"], "--mode needs a value"),
        (["--what", "x"], "unknown flag --what"),
        (["true"], "--mode is missing"),
        (["--mode", "MPOL_BIND", "--nodes", "", "true"], "set_mempolicy: Invalid argument"),
        (["--mode", "MPOL_LOCAL", "nonesuch"], "nonesuch: No such file or directory"),
    ],
)
def test_wrong_arguments_end_the_program_with_a_reason(mpolset: str, words: list[str], message: str) -> None:
    process = subprocess.run([mpolset, *words], capture_output=True, text=True, check=False, env={"PATH": os.defpath})
    assert (process.returncode, process.stderr) == (1, f"mpolset: error {message}\n")


def test_kernel_errors_can_be_ignored(mpolset: str) -> None:
    words = ["--mode", "MPOL_BIND", "--ignore-errors", "echo", "on"]
    assert subprocess.run([mpolset, *words], capture_output=True, text=True, check=True).stdout == "on\n"
    listed = subprocess.run([mpolset, "--mode", "help"], capture_output=True, text=True, check=True).stdout
    assert "  MPOL_WEIGHTED_INTERLEAVE (6)\n" in listed


@pytest.mark.parametrize(
    ("nodes", "cpus", "mems", "expected"),
    [
        ("", "", "", ""), ("all", "0", "0", "0-3"), ("allowed-mems", "", "1,3", "1,3"), ("allowed-mems", "", "", "0-3"),
        ("cpu-nodes", "4-11", "", "1-2"), ("cpu-packages", "0", "", "0-1"), ("max-dist:10", "0", "", "0"),
        ("max-dist:1000", "0", "", "0-3"), ("0,2-3", "", "", "0,2-3"),
    ],
)  # fmt: skip
def test_nodes_follow_from_the_containers_cpuset(nodes: str, cpus: str, mems: str, expected: str) -> None:
    selected = resolve(nodes, guest(), cpuset.parse(cpus), cpuset.parse(mems))
    assert cpuset.to_text(selected) == expected


@pytest.mark.parametrize("nodes", ["max-dist:x", "max-dist:-1", "ALL", "1-0"])
def test_invalid_nodes_are_an_error_with_the_key(nodes: str) -> None:
    with pytest.raises(ValueError, match=r"^nodes must "):
        resolve(nodes, guest(), frozenset(), frozenset())


def test_with_injection_the_program_precedes_the_command(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mpolset").write_bytes(b"program")
    attach(nri_runtime, tmp_path, injectMpolset=True, mpolset=str(tmp_path / "mpolset"))
    pod = make_pod(
        annotations={
            "policy.memory-policy.nri.io": "{mode: MPOL_BIND, nodes: 0-1, flags: [MPOL_F_STATIC_NODES], node: 1}",
            "other.memory-policy.nri.io": "x",
            "class.memory-policy.nri.io/container.c1": "",
        }
    )
    asking = make_container("c0", args=["app"])
    asking.linux.resources.cpu.mems = "1"
    message = nri_runtime.create_container(pod, asking).adjust.message
    folder = "/mnt/nri-memory-policy-mpolset"
    words = ["--mode", "MPOL_BIND", "--nodes", "0-1", "--flags", "MPOL_F_STATIC_NODES", "--", "app"]
    assert list(message.args) == [f"{folder}/mpolset", *words] and message.mounts[0].source == folder
    assert list(message.mounts[0].options) == ["bind", "ro"], "a private root refuses any that take mounts in"
    assert "nodes 0-1 are not allowed for the container: 1" in caplog.text
    assert "other.memory-policy.nri.io: unknown annotation" in caplog.text and 'did you mean "nodes"' in caplog.text
    other = nri_runtime.create_container(pod, make_container("c1", args=["app"], id="c1"))
    assert pruned(other.adjust) == nri.Adjustment()
