"""topology-aware and balloons on real containerds: what containers find inside is what was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.conftest import Start
from tests.real.placing import CONFIGS, assert_found_as_decided, placing
from tools.runtimes.machine import PATIENCE


@pytest.mark.parametrize("name", list(CONFIGS))
def test_containers_find_the_cpus_and_memory_nodes_that_were_decided(start: Start, name: str, tmp_path: Path) -> None:
    with placing(start(request_timeout_s=10 * PATIENCE), name, tmp_path) as beside:
        assert_found_as_decided(beside)
