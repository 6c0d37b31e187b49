"""The start of a bundled plugin imports only modules that it uses."""

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
    "policy-validator": {"dataclasses", "inspect", "logging"},  # as the operator's policy has
    # nri.host, logged claims, and the host's name as the name of the node
    "dra-cpu": {"dataclasses", "inspect", "logging", "socket"},
    "differ": {"logging"},  # these two write each request into the log
    "logger": {"logging"},
    "network-device-injector": {"socket"},  # for netlink messages to the kernel
}

PROGRAM = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module({module!r})
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("entry", registry.registered(), ids=lambda entry: entry.name)
def test_a_start_imports_no_heavy_module(entry) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=entry.module)],
        env=unmeasured(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    heavy = NEVER & set(json.loads(process.stdout)) - NEEDED.get(entry.name, set())
    assert not heavy, f"{entry.name} loads {sorted(heavy)}"
