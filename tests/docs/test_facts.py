"""Facts on pages agree with the code."""

import inspect
from pathlib import Path

import pytest

import nri
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.launch.discovery import MAX_CONFIG_BYTES
from nri.adaptation.peers.breaker import Breaker
from nri.adaptation.registration.listener import MAX_UNSETTLED
from nri.adaptation.registration.registry import MAX_REMEMBERED
from nri.adaptation.registration.update_queue import MAX_QUEUED, MAX_QUEUED_BYTES
from nri.api import naming
from nri.api.events import ALL, OLD
from nri.mux.frames import MAX_FIRST_FRAME, MAX_PAYLOAD
from nri.stub.session.synchronize import MAX_STATE_BYTES
from nri.stub.support.checks import ARGUMENTS
from nri.ttrpc.frames import MAX_DATA
from nri.ttrpc.link import REPLY_TIMEOUT_S
from nri.ttrpc.outbox import MAX_WAITING_BYTES, MAX_WAITING_FRAMES

BREAKER = Breaker()
DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ARGUMENTS)
def test_every_handler_is_described_with_its_arguments(method: str) -> None:
    assert f"`{method}({', '.join(ARGUMENTS[method])})`" in page("howto/write.md")


@pytest.mark.parametrize(
    "text",
    [
        f"| data of a ttRPC message | {MAX_DATA:,} bytes |".replace(",", " "),
        f"| payload of a mux frame | {MAX_PAYLOAD:,} bytes |".replace(",", " "),
        f"| first frame of a message | {MAX_FIRST_FRAME} bytes |",
        f"| registration | {naming.REGISTRATION_TIMEOUT_S:g} s |",
        f"| request | {naming.REQUEST_TIMEOUT_S:g} s |",
        f"`{ALL:#x}`; before 0.10 `{OLD:#x}`",
        f"`{naming.DEFAULT_SOCKET}`",
        f"`{naming.PLUGIN_DIR}/NN-name`",
        f"`{naming.CONFIG_DIR}/NN-name.conf`",
    ],
)
def test_numbers_on_the_page_of_limits_equal_the_constants(text: str) -> None:
    assert text in page("protocol/limits.md")


@pytest.mark.parametrize(
    "row",
    [
        f"| a connection without RegisterPlugin | {naming.REGISTRATION_TIMEOUT_S:g} s, and {MAX_UNSETTLED} of them |",
        f"| a request to a plugin | {naming.REQUEST_TIMEOUT_S:g} s, or `timeout` of the policy |",
        f"| requests in a row without an answer | {BREAKER.misses}, or `breaker` | left out for {BREAKER.retry_s:g} s",
        f"| a frame; a message | {MAX_DATA >> 20} MiB |",
        f"| updates of one plugin that wait | {MAX_QUEUED} requests, {MAX_QUEUED_BYTES >> 20} MiB |",
        (
            f"| replies that a plugin does not read | {MAX_WAITING_FRAMES}, or {MAX_WAITING_BYTES >> 20} MiB; "
            f"{REPLY_TIMEOUT_S:g} s |"
        ),
        f"| plugins that are remembered by name | {MAX_REMEMBERED} |",
        f"| configuration of a launched plugin | {MAX_CONFIG_BYTES >> 20} MiB |",
        f"| a plugin's state, in its own process | {MAX_STATE_BYTES >> 20} MiB on the wire",
    ],
)
def test_bounds_on_the_security_page_equal_the_constants(row: str) -> None:
    assert row in (DOCS / "security.md").read_text(encoding="utf-8")


def test_the_security_page_has_the_limits_of_provenance() -> None:
    parameters = inspect.signature(Provenance).parameters
    containers, size, records = (parameters[f"max_{name}"].default for name in ("containers", "bytes", "records"))
    row = f"| {containers:,} containers, {records} events each, {size >> 20} MiB |"
    assert row in (DOCS / "security.md").read_text(encoding="utf-8")


def test_the_reference_has_every_member_of_a_plugin() -> None:
    lines = page("reference/nri.md").splitlines()
    described = {line.split(":: ")[1] for line in lines if line.startswith("   .. auto")}
    explained_above = {"name", "failure_policy", "mirror", "config_format", "log_file", "Config"}
    explained_above |= {"flags", "annotations", "sets"}
    public = {name for name in dir(nri.Plugin) if not name.startswith("_")} | {"state"}
    assert described == public - explained_above
