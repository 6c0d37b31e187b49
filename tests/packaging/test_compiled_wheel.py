"""The compiled wheel: the same files, with the hot path in C next to its source."""

import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT
from tests.support.commands import run
from tools.build_hook import compiled_files, module_lists

pytestmark = pytest.mark.timeout(900)  # it may have to be compiled, and packages to be downloaded


def names(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_the_wheel_is_tagged_for_this_interpreter_and_platform(compiled_wheel: Path) -> None:
    tag = f"cp{sysconfig.get_config_var('py_version_nodot')}"
    assert compiled_wheel.name.split("-")[2:4] == [tag, tag]
    assert "any" not in compiled_wheel.stem.split("-")[-1]


def test_the_compiled_wheel_has_all_files_of_the_pure_wheel(wheel: Path, compiled_wheel: Path) -> None:
    assert names(wheel) <= names(compiled_wheel)


def test_every_module_on_the_list_is_compiled(compiled_wheel: Path) -> None:
    lists = module_lists(ROOT)
    modules = {name.removesuffix(".py") for name in compiled_files(ROOT / "src", lists["modules"], lists["exceptions"])}
    libraries = {name.partition(".")[0] for name in names(compiled_wheel) if name.endswith(".so") and "/" in name}
    assert modules == libraries


def test_plugins_runtimes_and_shared_code_have_separate_libraries(compiled_wheel: Path) -> None:
    libraries = {name.partition(".")[0] for name in names(compiled_wheel) if name.endswith(".so") and "/" not in name}
    assert libraries == {"nri_plugin__mypyc", "nri_runtime__mypyc", "nri_shared__mypyc"}


def test_building_the_wheel_leaves_no_library_in_the_source_tree(compiled_wheel: Path) -> None:
    assert not list((ROOT / "src").rglob("*.so"))


def test_nri_version_shows_whether_the_wheel_is_compiled(compiled_bin: Path, clean_bin: Path) -> None:
    lines = {folder: run([folder / "nri", "version"]).splitlines()[1].split() for folder in (compiled_bin, clean_bin)}
    assert lines == {compiled_bin: ["compiled", "yes"], clean_bin: ["compiled", "no"]}


def test_a_plugin_changes_a_container_with_the_compiled_wheel(compiled_bin: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import nri\n\nclass P(nri.Plugin):\n    def create_container(self, pod, container):\n"
        "        return nri.Adjustment().add_env('POD', pod.name)\n"
    )
    pod = tmp_path / "pod.yaml"
    pod.write_text("{kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: busybox}]}}")
    assert '+ Env POD "web"' in run([compiled_bin / "nri", "try", plugin, "--pod", pod])
