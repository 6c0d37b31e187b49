"""topology-aware and balloons on real containerds: containers have the decided CPUs and memory nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.conftest import Start
from tests.real.placing import CONFIGS, assert_found_as_decided, placing
from tools.runtimes.machine import PATIENCE


@pytest.mark.parametrize("name", list(CONFIGS))
def test_containers_have_the_decided_cpus_and_memory_nodes(start: Start, name: str, tmp_path: Path) -> None:
    with placing(start(request_timeout_s=10 * PATIENCE), name, tmp_path) as policy_plugin:
        assert_found_as_decided(policy_plugin)
