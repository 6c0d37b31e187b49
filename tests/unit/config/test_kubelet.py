"""Whether the kubelet pins containers itself: by its state files and its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.config.kubelet import pinning
from tests.support.host_trees import write_files

CPUS, MEMORY = "var/lib/kubelet/cpu_manager_state", "var/lib/kubelet/memory_manager_state"
CONFIG = "var/lib/kubelet/config.yaml"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        ({CPUS: '{"policyName":"none","defaultCpuSet":"","checksum":1}', MEMORY: '{"policyName":"None"}'}, []),
        ({CPUS: '{"policyName":"static","entries":{}}'}, [("CPU", "static", f"/{CPUS}")]),
        ({CONFIG: "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n", MEMORY: '{"policyName":"None"}'},
         [("CPU", "static", f"/{CONFIG}"), ("memory", "Static", f"/{CONFIG}")]),
        ({CPUS: '{"policyName":"static"}', CONFIG: "cpuManagerPolicy: static\n"}, [("CPU", "static", f"/{CPUS}")]),
        ({CPUS: "[]", MEMORY: '{"policyName": 1}', CONFIG: "{"}, []),
    ],
)  # fmt: skip
def test_a_manager_that_is_on_is_found(
    tmp_path: Path, files: dict[str, str], found: list[tuple[str, str, str]]
) -> None:
    write_files(tmp_path, files)
    assert [each[:3] for each in pinning(str(tmp_path))] == found


def test_it_is_said_what_to_do_about_it(tmp_path: Path) -> None:
    write_files(tmp_path, {MEMORY: '{"policyName":"Static"}'})
    (found,) = pinning(str(tmp_path))
    assert str(found) == f"/{MEMORY}: the kubelet's memory manager is on, with the policy Static"
    assert found.next == f"set memoryManagerPolicy to None, remove /{MEMORY}, and start the kubelet again"
