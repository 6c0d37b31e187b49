"""Changes of runtimes' configuration on copies of /etc."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from nri.config.runtimes.change import Timeouts, apply, check_unit, detect, plan, restart, unified
from nri.errors import ConfigError, NriError

CRIO_FILE = "/etc/crio/crio.conf.d/10-enable-nri.conf"
HEAD = '[plugins."io.containerd.nri.v1.nri"]'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node without programs."""
    (tmp_path / "etc/containerd").mkdir(parents=True)
    return tmp_path


def config(root: Path, text: str) -> Path:
    path = root / "etc/containerd/config.toml"
    path.write_text(text)
    path.chmod(0o640)
    return path


def turn_on(root: Path, runtime: str = "containerd", *timeouts: str) -> str:
    return apply(str(root), plan(str(root), runtime, Timeouts(*timeouts)), Timeouts(*timeouts))


def test_nri_is_turned_on_and_the_old_file_is_kept_once(root: Path) -> None:
    path = config(root, f"version = 2 # ours\n{HEAD}\n  disable = true\n")
    assert turn_on(root, "containerd", "10s", "5s") == f"{path}.before-nri"
    expected = '  plugin_registration_timeout = "10s"\n  plugin_request_timeout = "5s"\n  disable = false\n'
    assert path.read_text() == f"version = 2 # ours\n{HEAD}\n{expected}"
    assert path.stat().st_mode & 0o777 == 0o640
    backup = Path(f"{path}.before-nri")
    assert backup.read_text().endswith("disable = true\n") and backup.stat().st_mode & 0o777 == 0o640
    assert plan(str(root), "containerd", Timeouts("10s", "5s")).after == path.read_text()
    turn_on(root, "containerd", "20s", "5s")
    assert backup.read_text().endswith("disable = true\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664])
def test_a_file_keeps_its_owner_and_mode_and_so_does_its_copy(root: Path, mode: int) -> None:
    path = config(root, "version = 2\n")
    os.chown(path, 1234, 4321)
    path.chmod(mode)
    turn_on(root)
    for file in (path, Path(f"{path}.before-nri")):
        status = file.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 4321, mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_refused_change_keeps_the_owner(root: Path) -> None:
    path = config(root, 'version = 2\nimports = ["late.toml"]\n')
    os.chown(path, 1234, 4321)
    (root / "etc/containerd/late.toml").write_text(f"version = 2\n{HEAD}\ndisable = true\n")
    with pytest.raises(NriError, match=r"nothing was written, because .* takes precedence"):
        turn_on(root)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_a_node_without_a_file_gets_one_that_1_7_can_read(root: Path) -> None:
    assert turn_on(root) == ""
    text = (root / "etc/containerd/config.toml").read_text()
    assert text == f"version = 2\n\n{HEAD}\n  disable = false\n"


def test_a_later_file_that_overrides_the_change_is_named(root: Path) -> None:
    path = config(root, 'version = 2\nimports = ["late.toml"]\n')
    (root / "etc/containerd/late.toml").write_text(f"version = 2\n{HEAD}\ndisable = true\n")
    with pytest.raises(
        NriError, match=r"nothing was written, because /etc/containerd/late.toml:3: .* takes precedence"
    ):
        turn_on(root)
    assert path.read_text() == 'version = 2\nimports = ["late.toml"]\n'
    assert not Path(f"{path}.before-nri").exists(), "nothing was changed, and a later change begins with another text"


@pytest.mark.parametrize("backup", [b"\xff\xfe no text", b"another text"])
def test_a_foreign_backup_is_kept(root: Path, backup: bytes) -> None:
    path = config(root, 'version = 2\nimports = ["late.toml"]\n')
    (root / "etc/containerd/late.toml").write_text(f"version = 2\n{HEAD}\ndisable = true\n")
    copy = Path(f"{path}.before-nri")
    copy.write_bytes(backup)
    with pytest.raises(NriError, match=r"nothing was written, because .* takes precedence"):
        turn_on(root)
    assert copy.read_bytes() == backup and "imports" in path.read_text()


@pytest.mark.parametrize(
    ("name", "late", "reason"),
    [
        ("*.toml", "[x\n", "/etc/containerd/late.toml:1: not valid TOML"),
        ("*.toml", f"version = 2\n{HEAD}\nsocket_path = 1\n", "late.toml:3: .* must be a quoted string, not 1"),
        ("*.toml", f"version = 2\n{HEAD}\nplugin_request_timeout = '5'\n", "late.toml:3: .* is not a duration"),
        ("none.toml", "", "config.toml:2: imports: the imported file .* does not exist"),
    ],
)
def test_a_change_that_would_stop_the_runtime_is_not_written(root: Path, name: str, late: str, reason: str) -> None:
    text = f'version = 2\nimports = ["/etc/containerd/{name}"]\n'
    path = config(root, text)
    (root / "etc/containerd/late.toml").write_text(late)
    with pytest.raises(
        NriError, match=f"nothing was written, because the runtime would not start: .*{reason}.*; fix that first"
    ):
        turn_on(root)
    assert path.read_text() == text


def test_cri_o_gets_a_separate_file(root: Path) -> None:
    turn_on(root, "crio", "10s", "5s")
    timeouts = '  nri_plugin_registration_timeout = "10s"\n  nri_plugin_request_timeout = "5s"\n'
    expected = f"[crio.nri]\n  enable_nri = true\n{timeouts}"
    assert (root / CRIO_FILE[1:]).read_text() == expected
    assert os.listdir(root / "etc/crio/crio.conf.d") == ["10-enable-nri.conf"]  # CRI-O reads whatever is there
    (root / "etc/crio/crio.conf.d/20.conf").write_text("[crio.nri]\nenable_nri = false\n")
    before = (root / CRIO_FILE[1:]).read_text()
    with pytest.raises(NriError, match=r"nothing was written, because /etc/crio/crio.conf.d/20.conf:2"):
        turn_on(root, "crio")
    assert (root / CRIO_FILE[1:]).read_text() == before
    (root / CRIO_FILE[1:]).unlink()
    with pytest.raises(NriError, match="nothing was written"):
        turn_on(root, "crio")
    assert not (root / CRIO_FILE[1:]).exists()


def test_operators_settings_in_the_file_for_cri_o_are_kept(root: Path) -> None:
    turn_on(root, "crio")
    path = root / CRIO_FILE[1:]
    path.write_text(path.read_text().replace("= true", "= false # for now") + 'nri_listen = "/run/own.sock"\n')
    turn_on(root, "crio")
    assert path.read_text() == '[crio.nri]\n  enable_nri = true # for now\nnri_listen = "/run/own.sock"\n'


ISULAD = "etc/isulad/daemon.json"


@pytest.mark.parametrize(
    ("before", "timeouts", "after"),
    [
        (None, (), {"nri-support": True, "enable-cri-v1": True}),
        (
            '{"group": "isula", "enable-cri-v1": false}',
            ("10s", "5s"),
            {"group": "isula", "enable-cri-v1": True, "nri-support": True, "plugin-registration-timeout": 10,
             "plugin-request-timeout": 5},
        ),
    ],
)  # fmt: skip
def test_isulad_gets_cri_v1_and_timeouts_in_seconds(
    root: Path, before: str | None, timeouts: tuple[str, ...], after: dict
) -> None:
    (root / "etc/isulad").mkdir()
    if before is not None:
        (root / ISULAD).write_text(before)
    turn_on(root, "isulad", *timeouts)
    assert json.loads((root / ISULAD).read_text()) == after
    assert plan(str(root), "isulad", Timeouts(*timeouts)).after == (root / ISULAD).read_text()


@pytest.mark.parametrize("text", ["{} // none", '{"group": "a", "group": "b"}'])
def test_a_file_that_only_isulad_reads_is_changed_by_hand(root: Path, text: str) -> None:
    (root / "etc/isulad").mkdir()
    (root / ISULAD).write_text(text)
    with pytest.raises(ConfigError, match=r'a comment or a key twice.*"nri-support": true, "enable-cri-v1": true'):
        turn_on(root, "isulad")
    (root / ISULAD).write_text("{} # none")
    with pytest.raises(ConfigError, match="not valid JSON"):
        turn_on(root, "isulad")


@pytest.mark.parametrize("runtime", ["isulad", "crio"])
def test_a_runtime_that_reads_one_file_takes_no_other(root: Path, runtime: str) -> None:
    with pytest.raises(ConfigError, match=r"--file: .* does not read another file"):
        plan(str(root), runtime, Timeouts(), "/own.json")


def test_fractions_of_a_second_are_refused_for_isulad(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"--nri-plugin-request-timeout: iSulad .* whole seconds only, not 1\.5s"):
        plan(str(root), "isulad", Timeouts("5s", "1.5s"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[x\n", "/etc/containerd/config.toml:1"),
        (f"{HEAD}\n", r"version: is missing, and the release .* is not known \(specify the release"),
        ("version = 1\n", "version: is missing"),
        ('version = "2"\n', r"version: must be a whole number, not '2' \(write version = 2"),
        ("version = true\n", "version: must be a whole number, not True"),
        ("version = 2\nplugins = {}\n", "cannot be changed safely"),
    ],
)
def test_a_file_that_cannot_be_changed_is_an_error_and_kept(root: Path, text: str, reason: str) -> None:
    path = config(root, text)
    with pytest.raises(ConfigError, match=reason):
        turn_on(root)
    assert path.read_text() == text and not Path(f"{path}.before-nri").exists()


def test_a_link_is_followed_within_the_root_and_binary_data_refused(root: Path) -> None:
    path = root / "etc/containerd/config.toml"
    (root / "real.toml").write_text("version = 2\n")
    path.symlink_to("/real.toml")
    turn_on(root)
    assert path.is_symlink() and (root / "real.toml").read_text().endswith("disable = false\n")
    path.unlink()
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        turn_on(root)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="directory"):
        turn_on(root)


@pytest.mark.parametrize("release", ["2.4.2", "v2.3.0-k3s1"])
def test_the_default_file_of_version_4_is_changed(root: Path, release: str) -> None:
    path = config(root, f"version = 4\n{HEAD}\n  disable = true\n")
    apply(str(root), plan(str(root), "containerd", Timeouts(), release=release), Timeouts())
    assert path.read_text() == f"version = 4\n{HEAD}\n  disable = false\n"


@pytest.mark.parametrize(
    ("text", "release", "message"),
    [
        ("version = 4\n", "2.1.9", "the runtime would not start: .* version 4, .* versions up to 3"),
        ('version = 2\ndisabled_plugins = ["cri"]\n', "", "the runtime would not start: .*cri.* full name"),
        (
            'version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n',
            "2.1.9",
            "NRI would be enabled but never run: .*the CRI plugin is in disabled_plugins",
        ),
        ('disabled_plugins = ["cri"]\n', "1.7.24", "NRI would be enabled but never run"),
    ],
)
def test_a_change_without_the_intended_effect_is_not_written(root: Path, text: str, release: str, message: str) -> None:
    path = config(root, text)
    change = plan(str(root), "containerd", Timeouts(), release=release)
    with pytest.raises(NriError, match=f"nothing was written, because {message}"):
        apply(str(root), change, Timeouts())
    assert path.read_text() == text


K3S = "var/lib/rancher/k3s/agent/etc/containerd"


@pytest.mark.parametrize(("version", "name"), [(2, "config.toml.tmpl"), (3, "config-v3.toml.tmpl")])
def test_k3s_gets_a_template_and_its_file_is_kept(root: Path, version: int, name: str) -> None:
    (root / K3S).mkdir(parents=True)
    (root / K3S / "config.toml").write_text(f"version = {version}\n")
    change = plan(str(root), "containerd", Timeouts(), release="v2.1.5-k3s1")
    apply(str(root), change, Timeouts())
    template = root / K3S / name
    expected = f'{{{{ template "base" . }}}}\n\n{HEAD}\n  disable = false\n'
    assert template.read_text() == expected and change.unit == "k3s.service"
    assert (root / K3S / "config.toml").read_text() == f"version = {version}\n"
    assert plan(str(root), "containerd", Timeouts(), release="v2.1.5-k3s1").after == expected
    template.write_text(expected.replace("false", "true"))
    with pytest.raises(ConfigError, match="cannot be changed safely"):
        plan(str(root), "containerd", Timeouts(), release="v2.1.5-k3s1")


@pytest.mark.parametrize("name", ["k3s", "rke2"])
def test_k3s_and_rke2_get_a_drop_in_if_their_file_imports_one(root: Path, name: str) -> None:
    folder = root / "var/lib/rancher" / name / "agent/etc/containerd"
    folder.mkdir(parents=True)
    pattern = f"/var/lib/rancher/{name}/agent/etc/containerd/config-v3.toml.d/*.toml"
    (folder / "config.toml").write_text(f'version = 3\nimports = ["{pattern}"]\n{HEAD}\ndisable = true\n')
    apply(str(root), plan(str(root), "containerd", Timeouts(), release="v2.1.5-k3s1"), Timeouts())
    assert (folder / "config-v3.toml.d/nri.toml").read_text() == f"version = 3\n\n{HEAD}\n  disable = false\n"
    assert not (folder / "config-v3.toml.tmpl").exists()


def test_a_table_of_the_base_template_is_not_defined_twice(root: Path) -> None:
    (root / K3S).mkdir(parents=True)
    (root / K3S / "config.toml").write_text(f"version = 3\n{HEAD}\ndisable = true\n")
    change = plan(str(root), "containerd", Timeouts(), release="v2.1.5-k3s1")
    with pytest.raises(NriError, match="the runtime would not start"):
        apply(str(root), change, Timeouts())
    assert not (root / K3S / "config-v3.toml.tmpl").exists()


@pytest.mark.parametrize("imports", ["5", '"*"', '["/a[*"]'])
def test_imports_that_stop_the_daemon_are_reported(root: Path, imports: str) -> None:
    (root / K3S).mkdir(parents=True)
    (root / K3S / "config.toml").write_text(f"version = 3\nimports = {imports}\n")
    with pytest.raises(NriError, match="the runtime would not start"):
        turn_on(root)


def test_k0s_gets_a_drop_in_and_microk8s_a_line_in_its_template(root: Path) -> None:
    (root / "etc/k0s").mkdir()
    (root / "etc/k0s/containerd.toml").write_text('version = 3\nimports = ["/etc/k0s/containerd.d/*.toml"]\n')
    apply(str(root), plan(str(root), "containerd", Timeouts(), "/etc/k0s/containerd.toml"), Timeouts())
    drop_in = root / "etc/k0s/containerd.d/nri.toml"
    assert drop_in.read_text() == f"version = 3\n\n{HEAD}\n  disable = false\n"
    folder = root / "var/snap/microk8s/current/args"
    folder.mkdir(parents=True)
    (folder / "containerd.toml").write_text('version = 2\nroot = "/x"\n')
    (folder / "containerd-template.toml").write_text('version = 2\nroot = "${SNAP}/x"\n')
    path = "/var/snap/microk8s/current/args/containerd.toml"
    apply(str(root), plan(str(root), "containerd", Timeouts(), path), Timeouts())
    assert (folder / "containerd-template.toml").read_text().endswith(f"\n{HEAD}\n  disable = false\n")


def test_of_several_containerds_the_active_one_is_changed(root: Path, programs: Path) -> None:
    config(root, "version = 3\n")
    (root / K3S).mkdir(parents=True)
    (root / K3S / "config.toml").write_text("version = 3\n")
    assert plan(str(root), "containerd", Timeouts(), release="2.1.9").main == "/etc/containerd/config.toml"
    (programs / "systemctl").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ConfigError, match=r"there are several containerds: /etc/containerd/config\.toml, /var/lib"):
        plan(str(root), "containerd", Timeouts(), release="2.1.9")


def test_a_file_that_was_never_created_is_an_error(root: Path) -> None:
    with pytest.raises(ConfigError, match="k0s has not run on this node yet"):
        plan(str(root), "containerd", Timeouts(), "/etc/k0s/containerd.toml")


@pytest.mark.parametrize(
    ("timeouts", "reason"),
    [
        (("5s", ""), r"both timeouts are required together \(set both"),
        (("", "5s"), "both timeouts are required together"),
        (("5s", "5s"), "must exceed the request timeout"),
        (("5s", "0s"), "which must exceed 0"),
        (("5", "2s"), "--nri-plugin-registration-timeout"),
        (("10s", "fast"), "--nri-plugin-request-timeout"),
    ],
)
def test_unreasonable_timeouts_are_refused(timeouts: tuple[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Timeouts(*timeouts).check()


def test_the_difference_has_the_format_of_diff(root: Path) -> None:
    config(root, "version = 2\n")
    shown = unified(plan(str(root), "containerd", Timeouts()))
    assert shown.startswith("--- /etc/containerd/config.toml\n+++ /etc/containerd/config.toml\n@@ ")
    assert f"+{HEAD}\n+  disable = false\n" in shown


def test_the_installed_runtime_is_detected(root: Path) -> None:
    with pytest.raises(NriError, match="there is neither containerd nor CRI-O nor iSulad below"):
        detect(str(root))
    (root / "etc/crio").mkdir()
    (root / "etc/crio/crio.conf").touch()
    assert detect(str(root)) == "crio"
    config(root, "")
    with pytest.raises(NriError, match=r"several runtimes, containerd and crio .*--runtime containerd"):
        detect(str(root))


@pytest.fixture
def programs(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's programs, which chroot runs here; the commands of systemctl are in `asked`."""
    folder = root / "bin"
    folder.mkdir()
    scripts = {
        "chroot": 'shift; exec "$@"',
        "systemctl": f'echo $SYSTEMD_IGNORE_CHROOT $* >> {root}/asked; case "$*" in *containerd*) exit;; esac; exit 3',
        "containerd": "echo containerd github.com/containerd/containerd 1.7.24 abc",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_the_nodes_programs_report_the_release_and_restart_the_runtime(root: Path, programs: Path) -> None:
    path = config(root, "[plugins.nri]\ndisable = true\n")
    assert detect(str(root)) == "containerd"
    for version in ("version = 1\n", ""):  # containerd 1.7 reads that table in such files
        path.write_text(f"{version}[plugins.nri]\ndisable = true\n")
        turn_on(root)
        assert path.read_text() == f"{version}[plugins.nri]\ndisable = false\n"
    restart(str(root), plan(str(root), "containerd", Timeouts()))
    assert (root / "asked").read_text().splitlines()[-1] == "1 restart containerd.service"
    (programs / "containerd").write_text("#!/bin/sh\necho containerd x 2.1.0 abc\n")
    path.write_text("# nothing\n")
    turn_on(root)
    assert path.read_text() == f"# nothing\n\n{HEAD}\n  disable = false\n"


def test_a_unit_that_cannot_be_restarted_is_an_error_with_a_fix(root: Path, programs: Path) -> None:
    for script, words in (
        ("echo loaded", ""),
        ("echo not-found", "systemd reports that crio.service is not-found; omit --restart"),
        (
            "echo No systemd. >&2; echo Failed >&2; exit 1",
            "systemctl failed: No systemd.; Failed; in a pod, set hostPID: true",
        ),
    ):
        (programs / "systemctl").write_text(f"#!/bin/sh\n{script}\n")
        with pytest.raises(NriError, match=f"nothing is changed: {words}") if words else nullcontext():
            check_unit(str(root), "crio")


def test_a_failed_restart_reverts_the_change(root: Path) -> None:
    path = config(root, "version = 2\n")
    change = plan(str(root), "containerd", Timeouts())
    apply(str(root), change, Timeouts())
    with pytest.raises(
        NriError, match=r"failed with \d+; the old configuration was restored, and \S+ does not start with"
    ):
        restart(str(root), change)
    assert path.read_text() == "version = 2\n" and os.listdir(path.parent) == ["config.toml"]


def test_a_change_that_the_daemon_refuses_is_reverted(root: Path, programs: Path) -> None:
    path = config(root, "version = 2\n")
    text = 'case "$*" in *dump*) echo "containerd: it is full" >&2; exit 1;; esac; echo containerd x 2.1.9 y'
    (programs / "containerd").write_text(f"#!/bin/sh\n{text}\n")
    with pytest.raises(NriError, match=r"config dump. failed: containerd: it is full\. The old content was restored"):
        turn_on(root)
    assert path.read_text() == "version = 2\n"


def test_a_runtime_that_fails_with_the_change_is_started_without_it(root: Path, programs: Path) -> None:
    config(root, "version = 2\n")
    change = plan(str(root), "containerd", Timeouts())
    apply(str(root), change, Timeouts())
    (programs / "systemctl").write_text(f"#!/bin/sh\n! grep -q disable {root}/etc/containerd/config.toml\n")
    with pytest.raises(
        NriError, match=r"failed with 1; the old configuration was restored, and \S+ was started with it"
    ):
        restart(str(root), change)
