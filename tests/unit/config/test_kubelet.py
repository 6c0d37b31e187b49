"""Detection of CPU pinning by the kubelet, from its state files and its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.config.kubelet import pinning
from tests.support.host_trees import write_files

CPUS, MEMORY = "var/lib/kubelet/cpu_manager_state", "var/lib/kubelet/memory_manager_state"
CONFIG = "var/lib/kubelet/config.yaml"


@pytest.mark.parametrize(
    ("files", "expected"),
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
def test_an_enabled_manager_is_detected(
    tmp_path: Path, files: dict[str, str], expected: list[tuple[str, str, str]]
) -> None:
    write_files(tmp_path, files)
    assert [manager[:3] for manager in pinning(str(tmp_path))] == expected


def test_the_text_has_the_next_step(tmp_path: Path) -> None:
    write_files(tmp_path, {MEMORY: '{"policyName":"Static"}'})
    (manager,) = pinning(str(tmp_path))
    assert str(manager) == f"/{MEMORY}: the kubelet's memory manager is on, with the policy Static"
    assert manager.next == f"set memoryManagerPolicy to None, remove /{MEMORY}, and start the kubelet again"
