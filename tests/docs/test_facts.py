"""Facts that pages state in words are those of the code."""

from pathlib import Path

import pytest

import nri
from nri.api import naming
from nri.api.events import ALL, OLD
from nri.mux.frames import FIRST_FRAME, MAX_PAYLOAD
from nri.stub.support.checks import ARGUMENTS
from nri.ttrpc.frames import MAX_DATA

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
        f"| first frame of a message | {FIRST_FRAME} bytes |",
        f"| registration | {naming.REGISTRATION_TIMEOUT_S:g} s |",
        f"| request | {naming.REQUEST_TIMEOUT_S:g} s |",
        f"`{ALL:#x}`; before 0.10 `{OLD:#x}`",
        f"`{naming.DEFAULT_SOCKET}`",
        f"`{naming.PLUGIN_DIR}/NN-name`",
        f"`{naming.CONFIG_DIR}/NN-name.conf`",
    ],
)
def test_the_page_of_limits_has_the_numbers_of_the_code(text: str) -> None:
    assert text in page("protocol/limits.md")


def test_the_reference_has_every_member_of_a_plugin() -> None:
    lines = page("reference/nri.md").splitlines()
    described = {line.split(":: ")[1] for line in lines if line.startswith("   .. auto")}
    explained_above = {"name", "failure_policy", "mirror", "config_format", "log_file", "Config"}
    public = {name for name in dir(nri.Plugin) if not name.startswith("_")} | {"state"}
    assert described == public - explained_above
