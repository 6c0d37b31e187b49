"""The wheel that `pip install nri` installs."""

import re
import subprocess
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT
from tests.support.commands import run

pytestmark = pytest.mark.timeout(600)  # a download on a slow line

#: Read by `nri plugins show`.
PAGE_OF_A_PLUGIN = re.compile(r"nri/plugins/\w+/README\.md")
ALLOWED = {".py", ".pyi", ".typed", ".txt", ".html", ".css", ".js", ".json", ".c"}


def packaged(wheel: Path) -> list[str]:
    """The files of the package itself."""
    return [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]


def test_the_wheel_has_only_files_of_the_package(wheel: Path) -> None:
    strangers = [
        name
        for name in packaged(wheel)
        if not name.startswith("nri/") or (Path(name).suffix not in ALLOWED and not PAGE_OF_A_PLUGIN.fullmatch(name))
    ]
    assert not strangers


def test_the_wheel_has_every_file_of_the_tree(wheel: Path) -> None:
    tracked = run(["git", "-C", ROOT, "ls-files", "src/nri"]).split() if (ROOT / ".git").exists() else []

    missing = {name.removeprefix("src/") for name in tracked} - set(packaged(wheel))

    assert not missing


def test_the_wheel_has_a_py_typed_file(wheel: Path) -> None:
    assert "nri/py.typed" in packaged(wheel)


def test_the_wheel_has_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert all(any(name.endswith(f"licenses/{text}") for name in names) for text in ("LICENSE", "NOTICE"))


def test_nri_version_works_in_a_clean_environment(clean_bin: Path) -> None:
    assert version("nri") in run([clean_bin / "nri", "version"])


def test_nri_help_works_in_a_clean_environment(clean_bin: Path) -> None:
    assert "Usage" in run([clean_bin / "nri", "--help"])


def test_the_ten_line_plugin_needs_only_the_base_install(clean_bin: Path) -> None:
    code = (
        "import runpy; plugin = runpy.run_path('examples/pod_name.py')['PodName'];"
        "import nri; reply = plugin().create_container(nri.PodSandbox(name='web'), nri.Container());"
        "print(reply.env)"
    )

    assert run([clean_bin / "python", "-W", "error", "-I", "-c", code], cwd=ROOT) == "{'POD_NAME': 'web'}\n"


def test_every_command_shows_its_help_without_its_extra(clean_bin: Path) -> None:
    """The help of a command works in the base install, because it imports nothing heavy."""
    listing = run([clean_bin / "nri", "--help"])
    verbs = [line.split()[0] for line in listing.partition("Commands:")[2].splitlines() if line.startswith("  ")]

    broken = [
        verb
        for verb in verbs
        if subprocess.run([clean_bin / "nri", verb, "--help"], check=False, capture_output=True).returncode
    ]

    assert not broken
