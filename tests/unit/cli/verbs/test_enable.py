"""`nri enable` checks plugins and writes launchers atomically."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nri.cli.main import main
from nri.config.runtimes import plugin_folder
from nri.plugins.template import plugin as template
from tests.support.needs import need_machine, need_root


def test_the_launcher_starts_the_plugin_with_this_python_and_no_path(nri, plugin: Path, places, tmp_path: Path) -> None:
    result = nri("enable", str(plugin), "--idx", "10", *places)
    assert result.returncode == 0, result.stderr
    launcher = tmp_path / "plugins/10-pod-name"
    assert result.stdout == f"wrote {launcher}\n"
    assert "restart" in result.stderr
    assert oct(launcher.stat().st_mode & 0o777) == "0o755"
    out = tmp_path / "out"
    subprocess.run([str(launcher), "an argument"], env={"OUT": str(out)}, check=True)
    assert out.read_text() == f"{sys.executable} an argument"
    assert os.listdir(tmp_path / "plugins") == ["10-pod-name"], "runtimes fail on any other file in the folder"


def test_the_configuration_is_copied_unchanged(nri, plugin: Path, places, tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("cpus: 0-3  # all\n")
    assert nri("enable", str(plugin), "-idx", "20", "--name", "pin", "--config", str(config), *places).returncode == 0
    assert (tmp_path / "conf.d/20-pin.conf").read_text() == "cpus: 0-3  # all\n"
    assert (tmp_path / "plugins/20-pin").exists()


def test_a_dry_run_shows_everything_and_writes_nothing(nri, plugin: Path, places, tmp_path: Path) -> None:
    result = nri("enable", str(plugin), "--idx", "10", "--dry-run", *places)
    assert result.returncode == 0
    assert f"would write {tmp_path}/plugins/10-pod-name\n    #!/bin/sh\n" in result.stdout
    assert not (tmp_path / "plugins").exists()
    document = json.loads(nri("enable", str(plugin), "--idx", "10", "--dry-run", "-o", "json", *places).stdout)
    assert document["dry_run"] is True
    assert document["files"][0]["mode"] == "0755"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--idx", "1"], 'invalid plugin index "1", must be 2 digits'),
        (["--idx", "ab"], 'invalid plugin index "ab" (not [0-9][0-9])'),
        (["--idx", "10", "--name", "a/b"], "contains invalid character '/'"),
        ([], "missing option '--idx'"),
    ],
)
def test_invalid_names_are_refused_before_writing(
    nri, plugin: Path, places, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    result = nri("enable", str(plugin), *arguments, *places)
    assert result.returncode == 2
    assert reason in result.stderr
    assert not (tmp_path / "plugins").exists()


def test_a_file_that_others_can_write_is_refused(nri, plugin: Path, places, tmp_path: Path) -> None:
    plugin.chmod(0o666)
    result = nri("enable", str(plugin), "--idx", "10", *places)
    assert result.returncode == 1
    assert (
        f"other users may write to this file (mode 0666), and a plugin runs as root. Run 'chmod go-w {plugin}' first"
        in result.stderr
    )
    assert not (tmp_path / "plugins").exists()


def test_a_file_in_a_folder_that_others_can_write_is_refused(nri, plugin: Path, places) -> None:
    plugin.parent.chmod(0o777)
    result = nri("enable", str(plugin), "--idx", "10", *places)
    assert result.returncode == 1
    assert "other users may write to this folder" in result.stderr


def test_a_file_of_another_user_or_in_another_users_folder_is_refused(nri, plugin: Path, places) -> None:
    need_root()
    os.chown(plugin, 1000, 1000)
    assert (
        "this file belongs to user 1000, and a plugin runs as root"
        in nri("enable", str(plugin), "--idx", "10", *places).stderr
    )
    os.chown(plugin, 0, 0)
    os.chown(plugin.parent, 1000, 1000)
    assert "this folder belongs to user 1000" in nri("enable", str(plugin), "--idx", "10", *places).stderr


def test_a_plugin_folder_that_others_can_write_is_refused(nri, plugin: Path, places, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins").chmod(0o777)
    assert "whose files run as root" in nri("enable", str(plugin), "--idx", "10", *places).stderr


def test_a_python_file_that_never_starts_its_plugin_is_refused(nri, plugin: Path, places) -> None:
    plugin.write_text("x = 1\n")
    result = nri("enable", str(plugin), "--idx", "10", *places)
    assert result.returncode == 2
    assert "the file never calls main(), so it would exit at once. Add at its end: MyPlugin.main()" in result.stderr


def test_a_second_plugin_with_an_index_is_reported(nri, plugin: Path, places) -> None:
    assert "the index of" not in nri("enable", str(plugin), "--idx", "10", *places).stderr
    result = nri("enable", str(plugin), "--idx", "10", "--name", "other", *places)
    assert result.returncode == 0
    assert "10 is also the index of 10-pod-name: the order of these plugins is undefined" in result.stderr


def test_any_other_program_is_launched_directly(nri, plugin: Path, places, tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {shlex.quote(str(plugin))}\n")
    program.chmod(0o755)
    assert nri("enable", str(program), "--idx", "10", *places).returncode == 0
    assert f'\nexec {program} "$@"\n' in (tmp_path / "plugins/10-tool").read_text()
    program.chmod(0o644)
    assert "neither a Python file nor executable" in nri("enable", str(program), "--idx", "11", *places).stderr


def test_enabling_again_replaces_only_our_launcher(nri, plugin: Path, places, tmp_path: Path) -> None:
    assert nri("enable", str(plugin), "--idx", "10", *places).returncode == 0
    assert nri("enable", str(plugin), "--idx", "10", *places).returncode == 0
    second = nri("enable", str(plugin), "--idx", "20", *places)
    assert "pod-name is already enabled with another index. Run 'nri disable 10-pod-name' first" in second.stderr
    (tmp_path / "plugins/10-pod-name").write_text("#!/bin/sh\nsomebody else's\n")
    assert (
        "a plugin that `nri enable` did not write has this name"
        in nri("enable", str(plugin), "--idx", "10", *places).stderr
    )


HANDLER = "    def create_container(self, pod, container): pass\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nri, no_such_module\nclass P(nri.Plugin):\n" + HANDLER, ":1: ModuleNotFoundError: No module named"),
        (
            "import nri\nclass P(nri.Plugin):\n    def create_containr(self, pod, container): pass\n",
            "did you mean create_container",
        ),
        ("import nri\nclass P(nri.Plugin):\n    def helper(self): pass\n", "P handles no event"),
        (f"import nri, os\nos.environ['HOME']\nclass P(nri.Plugin):\n{HANDLER}", ":2: KeyError: 'HOME'"),
        (f"import nri\nopen('pod_name.py')\nclass P(nri.Plugin):\n{HANDLER}", ":2: FileNotFoundError: "),
        (
            "import nri\nclass P(nri.Plugin):\n    def synchronize(self, p, c): raise ValueError('boo')\n",
            "synchronize: ValueError: boo",
        ),
        ("import sys\nclass P:\n    main = lambda *_: sys.exit(0)\nP = P()\n", "it ends at once, without registering"),
    ],
    ids=["import", "class", "no event", "environment", "folder", "synchronize", "ends"],
)
def test_a_plugin_that_cannot_start_is_an_error_and_no_file_is_written(
    nri, plugin: Path, places, tmp_path: Path, text: str, reason: str
) -> None:
    plugin.write_text(f"{text}\nP.main()\n")
    result = nri("enable", str(plugin), "--idx", "10", *places, cwd=plugin.parent)
    assert result.returncode == 1
    first, second = result.stderr.splitlines()
    assert first.startswith(f"error: {plugin}: does not start as the runtime would start it: ")
    assert reason in first
    assert f"by hand: {shlex.join([sys.executable, str(plugin)])} --idx 10" in second
    assert not (tmp_path / "plugins").exists()


def test_a_plugin_that_never_registers_is_refused_after_the_registration_timeout(nri, places, tmp_path: Path) -> None:
    program = tmp_path / "silent"
    program.write_text("#!/bin/sh\necho thinking >&2\nexec /bin/sleep 60\n")
    program.chmod(0o755)
    result = nri("enable", str(program), "--idx", "10", *places, "--timeout", "500ms")
    assert result.returncode == 1
    assert "it does not register within 0.5 s; its last output: thinking" in result.stderr


def test_an_invalid_configuration_is_an_error_with_its_file(nri, plugin: Path, places, tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text("cpu: 0-3\n")
    result = nri("enable", str(plugin), "--idx", "10", "--config", str(config), *places)
    assert result.returncode == 1
    assert f'{config}:1: cpu: unknown key (did you mean "cpus"?)' in result.stderr
    assert f" --idx 10 --config {config}. If it can start only" in result.stderr
    assert not (tmp_path / "conf.d").exists()


def test_a_configuration_that_is_not_text_is_an_error_with_its_file(nri, plugin: Path, places, tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_bytes(b"cpus: \xff\n")
    result = nri("enable", str(plugin), "--idx", "10", "--config", str(config), *places)
    assert result.returncode == 1
    assert f"error: {config}: not UTF-8 text: byte 6 is 0xff" in result.stderr
    assert "nri-enable-" not in result.stderr


def test_an_existing_configuration_is_checked(nri, plugin: Path, places, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    drop_in = tmp_path / "conf.d/pod-name.conf"
    drop_in.write_text("cpu: 0-3\n")
    result = nri("enable", str(plugin), "--idx", "10", *places)
    assert result.returncode == 1
    assert f"{drop_in}:1: cpu: unknown key" in result.stderr


def test_a_plugin_can_be_enabled_unchecked(nri, plugin: Path, places, tmp_path: Path) -> None:
    plugin.write_text("import only_on_the_node\nonly_on_the_node.main()\n")
    assert nri("enable", str(plugin), "--idx", "10", "--dry-run", *places).returncode == 1, "a dry run checks, too"
    assert nri("enable", str(plugin), "--idx", "10", "--no-check", *places).returncode == 0
    assert (tmp_path / "plugins/10-pod-name").exists()


def test_the_check_leaves_no_files(nri, plugin: Path, places, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    assert nri("enable", str(plugin), "--idx", "10", *places, env={"TMPDIR": str(temporary)}).returncode == 0
    assert list(temporary.iterdir()) == []


@pytest.fixture
def _only_ours_to_write() -> None:
    """Continue only if plugins in the checkout are started: with a umask of 002 they are not."""
    source = Path(template.__file__)
    need_machine(not any(entry.stat().st_mode & 0o022 for entry in (source, source.parent)),
                 "checkout that only its owner may write to (chmod -R go-w src)")  # fmt: skip


@pytest.mark.usefixtures("_only_ours_to_write")
def test_a_bundled_plugin_is_enabled_by_its_name(nri, places, tmp_path: Path) -> None:
    result = nri("enable", "template", "--idx", "10", *places)
    assert (result.returncode, result.stdout) == (0, f"wrote {tmp_path}/plugins/10-template\n"), result.stderr
    launched = (tmp_path / "plugins/10-template").read_text().splitlines()[-1]
    assert launched == f'exec {shlex.quote(sys.executable)} -P -m nri.plugins.template.plugin "$@"'
    assert nri("disable", "template", *places).stdout == f"removed {tmp_path}/plugins/10-template\n"


@pytest.mark.usefixtures("_only_ours_to_write")
def test_a_bundled_plugin_is_rehearsed_with_its_configuration(nri, places, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("cfgParm1: x\n")
    result = nri("enable", "template", "--idx", "10", "--config", str(tmp_path / "c.yaml"), *places)
    assert result.returncode == 1
    assert f'{tmp_path}/c.yaml:1: cfgParm1: unknown key (did you mean "cfgParam1"?)' in result.stderr
    assert "-P -m nri.plugins.template.plugin --idx 10" in result.stderr
    assert not (tmp_path / "plugins").exists()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("tmplate", "tmplate: no file or plugin of this name exists; did you mean template?"),
        ("gone.py", "File 'gone.py' does not exist"),
    ],
)
def test_an_unknown_plugin_is_an_error_with_a_suggestion(nri, places, target: str, reason: str) -> None:
    result = nri("enable", target, "--idx", "10", *places)
    assert (result.returncode, result.stdout) == (2, "")
    assert reason in result.stderr


@pytest.mark.parametrize("unchecked", [[], ["--no-check"]])
def test_a_plugin_with_fixed_indices_is_refused_also_unchecked(nri, places, tmp_path: Path, unchecked) -> None:
    result = nri("enable", "differ", "--idx", "10", *unchecked, *places)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: differ: a runtime cannot launch this plugin, because it chooses its indices itself. "
        "Run it as a service, or in a DaemonSet\n"
    )
    assert not (tmp_path / "plugins").exists()


def test_for_isulad_a_plugin_gets_an_empty_configuration_file(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugin_folder, "requires_config", lambda root: True)
    monkeypatch.setattr(plugin_folder, "launch_obstacles", lambda root, folder: ["iSulad would not launch it"])
    with pytest.raises(SystemExit) as end:
        main(["enable", str(plugin), "--idx", "10", "--no-check", "--dry-run", "--config-dir", str(tmp_path)])
    output = capsys.readouterr()
    assert not end.value.code
    assert f"would write {tmp_path}/10-pod-name.conf\n" in output.out
    assert "iSulad would not launch it" in output.err
