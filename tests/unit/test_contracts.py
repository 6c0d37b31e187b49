"""The contracts about imports: each one refuses an import that breaks it, also one for type checkers only."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import unmeasured
from tools.pictures.layers import contracts

ROOT = Path(__file__).resolve().parents[2]

#: For each contract: a module, and what it must not import.
FORBIDDEN = {
    "Imports go down the list of layers, never up and never sideways": ("api/naming.py", "nri.kube.quantity"),
    "The plugin's side and placement never import the runtime's side": ("stub/__init__.py", "nri.adaptation.events"),
    "From outside, adaptation is imported by its faces: itself, its admin socket, and the rooms audit, launch and merge": (  # noqa: E501
        "proxy/settings.py",
        "nri.adaptation.merge.entries",
    ),
    "From outside, oci is imported by its face alone": ("engine/machine.py", "nri.oci.draft"),
    "Pure modules do no I/O: they take bytes or messages, and return bytes or messages": ("wire.py", "socket"),
    "The vocabulary of the agent and its decisions are pure: contexts and rules in, changes or a refusal out": (
        "agent/hooks.py",
        "socket",
    ),
    "The services of rubik do no I/O themselves: they are given samples and files of cgroups, and return writes": (
        "agent/rubik/profile.py",
        "socket",
    ),
    "Inside the command imports go from verbs down to settings: a verb prints, the doctor judges, support has what verbs share": (  # noqa: E501
        "cli/doctor/__init__.py",
        "nri.cli.verbs.why",
    ),
    "A plugin's program builds on its sessions, these on the plugin's class, that on handlers, and all on support": (
        "stub/support/context.py",
        "nri.stub.base",
    ),
    "Builders of answers build on the rest of the vocabulary, and nothing of it on them": (
        "api/removal.py",
        "nri.api.builders.checks",
    ),
    "Inside adaptation imports go from the wiring down to the merge: dispatch and launch build on registration, that on peers, these on audit, all on containers": (  # noqa: E501
        "adaptation/containers/inventory.py",
        "nri.adaptation.audit.trail",
    ),
    "Inside the engine imports go from the server down to support; state, processes, images, specs and networks do not know each other": (  # noqa: E501
        "engine/state/names.py",
        "nri.engine.process.runtime",
    ),
    "A call of the engine knows another one only to take back its steps, or for its readings": (
        "engine/calls/container_start.py",
        "nri.engine.calls.container_creation",
    ),
    "What calls of the engine share goes from ends of containers through plugins and processes down to records and machine": (  # noqa: E501
        "engine/lifecycle/processes.py",
        "nri.engine.lifecycle.domain",
    ),
    "The policies of placement do not know each other, and build on allocator, zones and containers": (
        "placement/topology_aware/pools.py",
        "nri.placement.balloons.tree",
    ),
    "Inside balloons imports go from the policy over restart and view to the set of balloons, its pins and types": (
        "placement/balloons/types.py",
        "nri.placement.balloons.balloon_set",
    ),
    "No transport of the agent knows another; what several need lies below them": (
        "agent/transports/standalone/tally.py",
        "nri.agent.transports.nri",
    ),
    "Inside the agent imports go from its wiring down through transports, decisions and records to the settings": (
        "agent/executor.py",
        "nri.agent.decisions",
    ),
    "Koordinator's features decide without I/O; the modules that work on the machine are named here": (
        "agent/koordinator/evict.py",
        "socket",
    ),
    "No profile is imported by its name: the agent loads the one that its settings choose": (
        "agent/agent.py",
        "nri.agent.koordinator.profile",
    ),
    "One module knows the client library of the apiserver": ("kube/client/follow.py", "httpx2"),
    "Inside the proxy imports go from the wiring down to records and settings; what passes bytes on knows no message": (
        "proxy/passing/call.py",
        "nri.proxy.state.records",
    ),
    "Inside host each room builds on cgroups, or on files and results alone, and none on its neighbours": (
        "host/process.py",
        "nri.host.topology",
    ),
    "Values of cgroups go from the writer down through one file and the table of knobs to the units": (
        "host/cgroups/knobs.py",
        "nri.host.cgroups.writer",
    ),
    "Clients and servers of ttRPC build on services, these on streams, and nothing of it on clients and servers": (
        "ttrpc/services/streams.py",
        "nri.ttrpc.services.client",
    ),
    "Inside oci imports go from the generator down its steps to the draft of a spec; CDI uses steps, and classes use CDI's checks": (  # noqa: E501
        "oci/draft.py",
        "nri.oci.process",
    ),
    "A CDI file is read, checked and applied below the folders that it is found in": (
        "oci/cdi/file.py",
        "nri.oci.cdi.edits",
    ),
    "Inside the streaming server imports go from sockets and threads down to what is said on the wire, which knows neither": (  # noqa: E501
        "engine/streaming/spdy/frames.py",
        "nri.engine.streaming.link",
    ),
    "Inside ttrpc imports go from the socket programs down to the pure connection, without a circle": (
        "ttrpc/link.py",
        "nri.ttrpc.monitor",
    ),
}


def lint_report(folder: Path) -> str:
    """The output of import-linter for the package in a folder."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    command += ["--config", ROOT / ".importlinter"]
    environment = {**unmeasured(), "COLUMNS": "300"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def verdicts(output: str) -> dict[str, str]:
    """KEPT or BROKEN for each contract."""
    # Behind the verdict may stand how many imports a contract passes over.
    lines = [re.sub(r" \(\d+ ignored imports\)$", "", line).rpartition(" ") for line in output.splitlines()]
    return {name: verdict for name, _, verdict in lines if verdict in ("KEPT", "BROKEN")}


def dotted(module: str) -> str:
    """`nri.api.naming` for `api/naming.py`."""
    return "nri." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "src/nri", folder / "nri", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def broken(copied: Path) -> dict[str, str]:
    """The report of each contract, for a package with all forbidden imports: one run is enough for all of them."""
    for module, imported in FORBIDDEN.values():
        file = copied / "nri" / module
        guard = "" if imported == "socket" else "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    "
        file.write_text(f"{file.read_text()}\n{guard}import {imported}\n")
    _, _, details = lint_report(copied).partition("\nBroken contracts\n")
    starts = sorted((details.index(f"\n{name}\n-"), name) for name in FORBIDDEN if f"\n{name}\n-" in details)
    ends = [*(start for start, _ in starts[1:]), len(details)]
    return {name: details[start:end] for (start, name), end in zip(starts, ends, strict=True)}


def test_every_contract_is_kept_and_has_a_row_here() -> None:
    assert verdicts(lint_report(ROOT / "src")) == dict.fromkeys(FORBIDDEN, "KEPT")
    assert {name for contract in contracts() for name in contract["name"]} == set(FORBIDDEN)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(broken: dict[str, str], name: str) -> None:
    module, imported = FORBIDDEN[name]
    assert f"{dotted(module)} -> {imported} (" in broken.get(name, ""), broken
