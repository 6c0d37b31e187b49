"""Imports of the API modules at a plugin's start, counted in modules and not in milliseconds."""

import subprocess
import sys

import pytest

LIGHT = [
    "annotations", "builders.failure", "cpuset", "events", "naming", "readers", "removal", "selectors",
]  # fmt: skip
#: Each of these costs milliseconds, and none has work to do before the first event.
HEAVY = {
    "asyncio",
    "dataclasses",
    "google.protobuf.descriptor_pool",
    "google.protobuf.json_format",
    "google.protobuf.text_format",
    "inspect",
    "json",
    "logging",
    "nri.api.pb.api_pb2",
    "pickle",
    "socket",
}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    process = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return set(process.stdout.split())


@pytest.mark.parametrize("name", LIGHT)
def test_a_light_module_does_not_load_protobuf(name: str) -> None:
    loaded = loaded_by(f"import nri.api.{name}")
    assert not {module for module in loaded if module.startswith("google")}
    assert "typing" not in loaded


def test_the_package_imports_no_submodule() -> None:
    assert {name for name in loaded_by("import nri.api") if name.startswith("nri.api.")} == set()


def test_the_builders_import_no_heavy_module() -> None:
    loaded = loaded_by("from nri.api.builders import adjustment, update, eviction; import nri.api.owners")
    assert not loaded & HEAVY
