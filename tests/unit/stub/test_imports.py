"""The exact modules that a plugin's start imports. Each further module costs time and memory in every plugin.

A plugin runs until it is configured, and prints the modules that a bare interpreter does not load. Before you add a
module to the lists below, measure its cost (`python -m bench start`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import google.protobuf
import pytest

import nri
from tests.support.plugin_program import Listener, plugin_program

NRI = """
nri nri.lazy nri.api nri.api.builders nri.api.builders.adjustment nri.api.builders.builder
nri.api.builders.checks nri.api.builders.combinations nri.api.builders.eviction
nri.api.builders.mounts nri.api.builders.resources nri.api.builders.unified
nri.api.builders.update nri.api.builders.view nri.api.cpuset
nri.api.events nri.api.loader nri.api.messages nri.api.naming nri.api.optional nri.api.pb nri.api.pb.descriptor
nri.api.removal nri.versions nri.errors nri.mux nri.mux.demux nri.mux.frames nri.mux.trunk nri.signals nri.stream
nri.stub nri.stub.base nri.stub.handler nri.stub.handler.answers nri.stub.handler.call nri.stub.handler.coroutines
nri.stub.plugin nri.stub.program nri.stub.program.options nri.stub.program.process nri.stub.program.reconnect
nri.stub.program.start nri.stub.session nri.stub.session.background nri.stub.session.service
nri.stub.session.session nri.stub.session.settings nri.stub.session.subscription
nri.stub.session.synchronize nri.stub.support nri.stub.support.default_attributes nri.stub.support.checks
nri.stub.support.context
nri.stub.support.log_destination nri.stub.support.mirror nri.stub.support.pending
nri.stub.support.runtime_handle nri.stub.support.decode_errors nri.text
nri.ttrpc nri.ttrpc.answerer nri.ttrpc.codes nri.ttrpc.connection nri.ttrpc.endpoint nri.ttrpc.envelope
nri.ttrpc.frames nri.ttrpc.halves nri.ttrpc.interceptors nri.ttrpc.link nri.ttrpc.outbox
nri.ttrpc.waiters nri.ttrpc.slow_path nri.wire nri.text
"""
PROTOBUF = """
google google._upb google._upb._message google.protobuf google.protobuf.descriptor google.protobuf.internal
google.protobuf.internal.api_implementation google.protobuf.internal.enum_type_wrapper
google.protobuf.internal.field_mask google.protobuf.internal.well_known_types google.protobuf.message
"""
#: Modules of the standard library: those that protobuf imports, and four that our own code imports.
STANDARD = """
__future__ _collections _datetime _functools _locale _operator _sre _struct _typing _weakrefset binascii calendar
collections collections.abc contextlib copyreg datetime enum functools importlib importlib._abc importlib._bootstrap
importlib._bootstrap_external importlib.abc importlib.machinery importlib.util itertools keyword locale math operator
re re._casefix re._compiler re._constants re._parser reprlib struct threading types typing typing.io typing.re
warnings weakref
_contextvars _socket select signal _signal
os os.path stat _stat posixpath genericpath
atexit
"""
#: The extension module of the compiled wheel, which contains the compiled modules above.
COMPILED = "nri_plugin__mypyc"
#: Each of these costs 5 to 50 ms of a start of 50 (shared measurements in bench/RESULTS.md).
NEVER = {"click", "asyncio", "dataclasses", "inspect", "logging", "logging.handlers", "argparse", "socket"}

PLUGIN = """
import json, sys
before = set(sys.modules)
sys.path[:0] = {path!r}
import nri

class Small(nri.Plugin):
    def configure(self):
        loaded = sorted(set(sys.modules) - before - {{"__main__"}})
        print(json.dumps(loaded), flush=True)

    def create_container(self, pod, container):
        return nri.Adjustment().add_env("A", "1")

Small.main()
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a start adds to those of a bare interpreter (`-I -S`: nothing of this machine's site)."""
    folder = tmp_path_factory.mktemp("imports")
    path = [str(Path(nri.__file__).parents[1]), str(Path(google.protobuf.__file__).parents[2])]
    file = folder / "small.py"
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        check=True,
    )
    file.write_text(
        PLUGIN.format(path=path)
        .replace("import json, sys\nbefore", "import sys\nbefore", 1)
        .replace("print(json.dumps(loaded), flush=True)", "print('LOADED', *loaded, flush=True)")
    )
    sock = folder / "nri.sock"
    arguments = ["-I", "-S", file, "--idx", "10", "--socket-path", sock]
    with Listener(sock) as listener, plugin_program(folder, *arguments) as program:
        listener.accept().begin()
        program.wait_text("LOADED")
        line = next(line for line in program.text().splitlines() if line.startswith("LOADED"))
    return set(line.split()[1:]) - set(json.loads(bare.stdout))


def test_a_start_imports_exactly_these_modules_of_nri(loaded: set[str]) -> None:
    names = {name for name in loaded if name.split(".")[0] == "nri"}
    assert names == set(NRI.split())


def test_a_start_imports_exactly_these_modules_of_protobuf(loaded: set[str]) -> None:
    names = {name for name in loaded if name.split(".")[0] == "google"}
    assert names == set(PROTOBUF.split())


def test_a_start_imports_only_these_modules_of_the_standard_library(loaded: set[str]) -> None:
    standard = {name for name in loaded if name.split(".")[0] not in ("nri", "google", COMPILED)}
    assert standard <= set(STANDARD.split()), f"new: {standard - set(STANDARD.split())}"


def test_a_start_imports_no_slow_module(loaded: set[str]) -> None:
    assert not loaded & NEVER


def test_importing_nri_imports_only_the_lazy_loader() -> None:
    text = f"import sys; sys.path[:0] = [{str(Path(nri.__file__).parents[1])!r}]; b = set(sys.modules); import nri; "
    text += "print(*sorted(set(sys.modules) - b))"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) == {"nri", "nri.lazy", "__future__"}
