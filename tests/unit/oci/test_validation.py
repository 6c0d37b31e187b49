"""Problems of specs, with path and value."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nri.oci import validate
from nri.oci.validation import MAX_PROBLEMS
from tests.support.needs import need_tool

GOOD: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "process": {"args": ["sh"], "cwd": "/", "user": {"uid": 0, "gid": 0}, "env": ["A=1"]},
    "root": {"path": "rootfs"},
    "linux": {"namespaces": [{"type": "pid"}]},
    "x-vendor": [1],
}


def problems(**change: Any) -> list[str]:
    return [str(problem) for problem in validate({**GOOD, **change})]


def linux(**change: Any) -> list[str]:
    return problems(linux={"namespaces": [{"type": "pid"}], **change})


def process(**change: Any) -> list[str]:
    return problems(process={**GOOD["process"], **change})


def test_a_valid_spec_has_no_problem() -> None:
    assert validate(GOOD) == []
    assert problems(process=None, root=None) == []


def test_runcs_spec_is_valid(tmp_path: Path) -> None:
    subprocess.run([need_tool("runc"), "spec"], cwd=tmp_path, check=True)
    assert validate(json.loads((tmp_path / "config.json").read_text())) == []


@pytest.mark.parametrize(
    ("anys", "expected"),
    [
        (validate([1]), "expected an object, not [1]"),
        (problems(hostname=5), "hostname: expected a string, not 5"),
        (problems(hostname="a\0b"), "hostname: contains a zero byte"),
        (problems(mounts={}), "mounts: expected a list, not {}"),
        (problems(annotations=[]), "annotations: expected an object, not []"),
        (problems(annotations={"a": 1}), 'annotations["a"]: expected a string, not 1'),
        (problems(root={"path": "x", "readonly": 1}), "root.readonly: expected true or false, not 1"),
        (process(user={"uid": -1}), "process.user.uid: -1 is out of range (0 to 4294967295)"),
        (process(user={"uid": True}), "process.user.uid: expected a whole number, not true"),
        (process(user={"uid": 1.5}), "process.user.uid: expected a whole number, not 1.5"),
        (problems(mounts=["x" * 99]), f'mounts[0]: expected an object, not "{"x" * 56}...'),
        (problems(ociVersion="1"), 'ociVersion: "1" is not a version such as 1.2.0'),
        (problems(root={}), 'root.path: "" is not a directory'),
        (process(args=[]), "process.args: a program to run is required"),
        (process(cwd="x"), 'process.cwd: "x" is not an absolute path'),
        (process(env=["A"]), 'process.env[0]: "A" is not of the form NAME=value'),
        (
            process(rlimits=[{"type": "NOFILE"}]),
            'process.rlimits[0].type: "NOFILE" is not a limit such as RLIMIT_NOFILE',
        ),
        (
            process(rlimits=[{"type": "RLIMIT_CORE"}, {"type": "RLIMIT_CORE"}]),
            'process.rlimits[1].type: "RLIMIT_CORE" is already used by process.rlimits[0]',
        ),
        (
            process(rlimits=[{"type": "RLIMIT_CORE", "soft": 2, "hard": 1}]),
            "process.rlimits[0]: the soft limit 2 exceeds the hard limit 1",
        ),
        (
            process(ioPriority={"class": "BE"}),
            'process.ioPriority.class: "BE" is not one of IOPRIO_CLASS_RT, IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE',
        ),
        (problems(mounts=[{"destination": "a"}]), 'mounts[0].destination: "a" is not an absolute path'),
        (problems(hooks={"poststop": [{}]}), 'hooks.poststop[0].path: "" is not an absolute path'),
        (
            linux(namespaces=[{"type": "net"}]),
            'linux.namespaces[0].type: "net" is not one of pid, network, mount, ipc, uts, user, cgroup, time',
        ),
        (
            linux(namespaces=[{"type": "pid"}, {"type": "pid"}]),
            'linux.namespaces[1].type: "pid" is already used by linux.namespaces[0]',
        ),
        (linux(uidMappings=[{}]), "linux.uidMappings: ID mappings require a user namespace"),
        (
            linux(timeOffsets={"monotonic": {"secs": 1}}),
            "linux.timeOffsets: time offsets require a time namespace",
        ),
        (linux(devices=[{"path": "/dev/x", "type": "x"}]), 'linux.devices[0].type: "x" is not one of c, u, b, p'),
        (
            linux(resources={"memory": {"limit": 9, "swap": 5}}),
            "linux.resources.memory.swap: 5 is below the memory limit 9, which it must include",
        ),
        (
            linux(resources={"memory": {"limit": -1, "swap": 5}}),
            "linux.resources.memory.swap: 5 limits memory plus swap, so memory alone must be limited, too",
        ),
        (linux(resources={"memory": {"swappiness": 101}}), "linux.resources.memory.swappiness: 101 exceeds 100"),
        (linux(resources={"cpu": {"cpus": "3-1"}}), "linux.resources.cpu.cpus: '3-1' ends before it begins"),
        (
            linux(resources={"devices": [{"access": "x"}]}),
            'linux.resources.devices[0].access: "x" is not made of r, w and m',
        ),
        (
            linux(resources={"hugepageLimits": [{"pageSize": "2"}]}),
            'linux.resources.hugepageLimits[0].pageSize: "2" is not such as 2MB',
        ),
    ],
)  # fmt: skip
def test_a_problem_names_path_and_value(anys: list[Any], expected: str) -> None:
    assert [str(entry) for entry in anys] == [expected]


def test_rules_are_not_applied_to_values_of_a_wrong_type() -> None:
    assert problems(ociVersion="x", mounts=[5]) == ["mounts[0]: expected an object, not 5"]


def test_at_most_a_hundred_problems_are_reported() -> None:
    assert len(problems(mounts=[5] * 500)) == MAX_PROBLEMS
    assert len(problems(mounts=[{}] * 500)) == MAX_PROBLEMS
