"""A bundled plugin's start pays for what it uses: none loads what costs more than the rest of it together."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nri.plugins import registry
from tests.support.commands import unmeasured
from tests.unit.stub.test_imports import NEVER

#: What a plugin needs from the start, with the reason.
NEEDED = {
    "balloons": {"dataclasses", "inspect"},  # these two have values of policies, which are dataclasses
    "topology-aware": {"dataclasses", "inspect"},
    **{name: {"dataclasses", "inspect"} for name in ("memory-policy", "memtierd", "resctrl-mon")},  # as nri.host has
    "default-validator": {"dataclasses", "inspect"},  # its configuration is that of the policy, a dataclass
    "differ": {"logging"},  # these two write each request into the log
    "logger": {"logging"},
    "network-device-injector": {"socket"},  # it speaks to the kernel over one
}

PROGRAM = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module({module!r})
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("entry", registry.registered(), ids=lambda entry: entry.name)
def test_a_plugin_loads_nothing_heavy_before_it_is_asked(entry) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=entry.module)],
        env=unmeasured(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    heavy = NEVER & set(json.loads(process.stdout)) - NEEDED.get(entry.name, set())
    assert not heavy, f"{entry.name} loads {sorted(heavy)}"
