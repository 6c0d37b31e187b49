"""`nri new`: the files of the scaffold. tests/deploy runs and builds it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from packaging.version import Version

from nri.cli.settings import Settings
from nri.cli.verbs import new


@pytest.fixture
def project(nri, tmp_path: Path) -> Path:
    result = nri("new", "pod-name", "--idx", "30", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return tmp_path / "pod-name"


def test_all_files_are_created_without_unfilled_markers(project: Path) -> None:
    texts = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    wheels = {path for path in texts if path.startswith("wheels/")}
    assert texts - wheels == {
        ".containerignore", ".gitignore", "Containerfile", "README.md", "deploy/daemonset.yaml",
        "deploy/pod-name.service", "nri.txt", "pod_name.py", "pyproject.toml", "tests/test_pod_name.py",
    }  # fmt: skip
    assert len(wheels) == 1
    for path in texts - wheels:
        assert not re.findall(r"@\w+@", (project / path).read_text()), f"{path} still holds a marker"


def test_nri_is_required_by_version_and_hash_of_the_included_wheel(project: Path) -> None:
    (wheel,) = (project / "wheels").iterdir()
    version = wheel.name.split("-")[1]
    assert Version(version).local, "an index takes no version with a local part, so that no stranger's can be meant"
    results = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert results["dependencies"] == [f"nri=={version}"]
    lines = [line for line in (project / "nri.txt").read_text().splitlines() if not line.startswith("#")]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert lines == ["--no-index", f"./wheels/{wheel.name} \\", f"    --hash=sha256:{digest}"]


def test_no_line_installs_nri_from_a_package_index(project: Path) -> None:
    for path in ("Containerfile", "README.md", "pyproject.toml"):
        for line in (project / path).read_text().splitlines():
            if re.search(r"pip\S* (install|download)", line) and "never" not in line:
                assert re.search(r"-r nri\.txt|--find-links wheels|install (-e )?\.", line), line


def test_the_plugin_is_valid_python_with_its_own_names(project: Path) -> None:
    text = (project / "pod_name.py").read_text()
    compile(text, "pod_name.py", "exec")
    assert "class PodName(nri.Plugin):" in text
    assert 'idx="30"' in (project / "tests/test_pod_name.py").read_text()


def test_the_project_installs_a_command_that_runs_the_plugin(project: Path) -> None:
    results = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert results["scripts"] == {"pod-name": "pod_name:PodName.main"}
    assert results["name"] == "pod-name"


def test_the_daemon_set_mounts_only_the_socket(project: Path) -> None:
    pod = yaml.safe_load((project / "deploy/daemonset.yaml").read_text())["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["securityContext"] == {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(pod)
    assert pod["automountServiceAccountToken"] is False
    assert container["args"] == ["-idx", "30"]
    assert [volume["hostPath"]["path"] for volume in pod["volumes"]] == ["/var/run/nri"]
    assert container["volumeMounts"][0]["readOnly"] is True


def test_a_folder_with_files_is_refused(nri, tmp_path: Path) -> None:
    (tmp_path / "pod-name").mkdir()
    (tmp_path / "pod-name/precious").write_text("x")
    result = nri("new", "pod-name", cwd=tmp_path)
    assert result.returncode == 1
    assert "pod-name: not an empty folder" in result.stderr
    assert [path.name for path in (tmp_path / "pod-name").iterdir()] == ["precious"]


@pytest.mark.parametrize("name", ["Pod", "pod_name", "-a", "a-", "a--b", "1a", "a b", "../x", "nri", ""])
def test_invalid_names_are_refused(nri, tmp_path: Path, name: str) -> None:
    result = nri("new", "--", name, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "resource", "google", "pytest", "class", "none"])
def test_names_that_hide_modules_or_are_keywords_are_refused(nri, tmp_path: Path, name: str) -> None:
    result = nri("new", name, cwd=tmp_path)
    assert result.returncode == 2
    assert "choose another name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_index_is_refused(nri, tmp_path: Path) -> None:
    assert "--idx: invalid plugin index" in nri("new", "a", "--idx", "5", cwd=tmp_path).stderr


def test_json_names_the_files(nri, tmp_path: Path) -> None:
    document = json.loads(nri("new", "a", "-o", "json", cwd=tmp_path).stdout)
    assert document["folder"] == "a"
    assert "a/a.py" in document["files"]


@pytest.mark.parametrize(("existing", "step"), [(True, "pytest"), (False, "pip install pytest && pytest")])
def test_the_printed_next_step_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bool, step: str
) -> None:
    monkeypatch.setattr(new, "find_spec", lambda name: object() if existing else None)
    folder = tmp_path / "my plugin"
    result = CliRunner().invoke(new.command, ["pod-name", "--folder", str(folder)], obj=Settings())
    assert result.exit_code == 0, result.output
    assert f"next:  cd '{folder}'  and then  {step}  or, as root," in result.output
