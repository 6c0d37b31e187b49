"""`nri config-manager` as a command: differences, files and messages."""

from __future__ import annotations

from pathlib import Path


def test_a_dry_run_shows_the_difference_and_a_real_run_applies_it_once(nri, folder: Path) -> None:
    path = folder / "etc/containerd/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("version = 2\n")
    words = ("config-manager", "--root", str(folder), "--runtime", "containerd")
    shown = nri(*words, "--dry-run")
    assert shown.returncode == 0 and "\n+  disable = false\n" in shown.stdout and path.read_text() == "version = 2\n"
    result = nri(*words)
    assert result.stdout.startswith(shown.stdout)
    assert f"written; the previous content is in {path}.before-nri\n" in result.stdout
    assert "systemctl restart containerd.service" in result.stdout
    assert nri(*words).stdout == "/etc/containerd/config.toml: NRI is on already, nothing to change\n"
    doctor = nri("doctor", "--root", str(folder))
    assert "NRI is off in containerd" not in doctor.stdout


def test_enabling_nri_in_isulad_has_a_caution_and_uses_its_own_unit(nri, folder: Path) -> None:
    path = folder / "etc/isulad/daemon.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"group": "isula"}\n')
    result = nri("config-manager", "--root", str(folder))
    assert result.returncode == 0, result.stderr
    assert "systemctl restart isulad.service" in result.stdout
    assert "iSulad 2.1.6 ends when the kubelet updates" in result.stderr


def test_a_given_file_is_containerds(nri, folder: Path) -> None:
    (folder / "own.toml").write_text("version = 2\n")
    words = ("config-manager", "--root", str(folder), "--file", "/own.toml")
    result = nri(*words)
    assert result.returncode == 0, result.stderr
    assert "disable = false" in (folder / "own.toml").read_text()
    other = nri(*words, "--runtime", "crio", "--dry-run")
    assert (other.returncode, "CRI-O does not read another file" in other.stderr) == (2, True), other.stdout


def test_a_mistake_exits_with_2_and_its_position(nri, folder: Path) -> None:
    result = nri("config-manager", "--root", str(folder), "--nri-plugin-request-timeout", "2s")
    assert result.returncode == 2 and "--nri-plugin-registration-timeout" in result.stderr


def test_without_a_restartable_runtime_no_file_is_written(nri, folder: Path) -> None:
    result = nri("config-manager", "--root", str(folder), "--runtime", "crio", "--restart")
    assert result.returncode == 1 and "crio could not be restarted, so nothing is changed" in result.stderr
    assert list(folder.iterdir()) == []
