"""All launched plugins of a runtime: started and restarted."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from nri.adaptation.launch.start import Starter
from nri.adaptation.launch.supervisor import Supervisor
from nri.backoff import Backoff
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Monitor
from tests.support.adapting import PATIENT, change
from tests.support.made_plugins import Mode, both
from tests.support.programs import write_program
from tests.support.waiting import wait_for


@both
def test_launched_plugins_restart(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.01))
    runs = tmp_path / "runs"
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "10-dies").write_text(f"#!/bin/sh\necho run >> {runs}\nexit 1\n")
    (folder / "10-dies").chmod(0o755)
    with FakeRuntime(compat=mode, plugin_path=str(folder)) as runtime:
        if mode == "default":
            wait_for(lambda: len(runs.read_text().split()) >= 3, "it was started again")
        else:
            wait_for(lambda: runtime.health("10-dies").state == "gone", "its end was noticed")
            assert len(runs.read_text().split()) == 1


def test_a_launched_plugin_with_a_changed_configuration_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.CHECK_INTERVAL_S", 0.02)
    folder, config = tmp_path / "plugins", tmp_path / "conf.d"
    folder.mkdir()
    config.mkdir()
    messages = tmp_path / "words"
    (folder / "10-told").write_text(
        f"#!{sys.executable}\nimport nri\nclass Told(nri.Plugin):\n"
        "    class Config:\n        word: str = 'none'\n"
        f"    def configure(self): open({str(messages)!r}, 'a').write(self.config.word + ' ')\n"
        "    def start_container(self, pod, container): pass\nTold.main()\n"
    )
    (folder / "10-told").chmod(0o755)
    with FakeRuntime(plugin_path=str(folder), plugin_config_path=str(config), **PATIENT) as runtime:
        assert runtime.adaptation.ready(["10-told"], 20), runtime.plugins
        change(config / "told.conf", "word: common\n")
        wait_for(lambda: messages.read_text() == "none common ", "the plugin got the new file")
        change(config / "10-told.conf", "word: own\n")
        wait_for(lambda: messages.read_text() == "none common own ", "its own file comes before the common one")
        change(config / "10-told.conf", "word: edited\n")
        wait_for(lambda: messages.read_text() == "none common own edited ", "the plugin got the edited file")
        assert runtime.adaptation.ready(["10-told"], 20)
        assert runtime.health("10-told").restarts == 3


def test_launched_plugins_are_synchronized_before_the_first_event(tmp_path: Path) -> None:
    import sys

    calls = tmp_path / "seen"
    folder = tmp_path / "plugins"
    folder.mkdir()
    program = folder / "10-early"
    program.write_text(
        f"#!{sys.executable}\nimport nri\nclass Early(nri.Plugin):\n"
        f"    def synchronize(self, pods, containers): open({str(calls)!r}, 'w').write(containers[0].id)\n"
        "    def start_container(self, pod, container): pass\nEarly.main()\n"
    )
    program.chmod(0o755)
    pod = make_pod()
    with FakeRuntime(plugin_path=str(folder), pods=[pod], containers=[make_container(id="old", pod=pod)], **PATIENT):
        assert calls.read_text() == "old"


def test_a_plugin_that_cannot_be_launched_is_reported_and_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.01))
    path = write_program(tmp_path / "plugins", "10-lost", "#!/nowhere/python\n")
    reason = "its interpreter /nowhere/python does not exist"
    with FakeRuntime(plugin_path=str(path.parent)) as runtime:
        row = runtime.health("10-lost")
        assert (row.kind, row.pid, row.last_error) == ("pre-connected", 0, f"{path}: {reason}")
        wait_for(lambda: caplog.text.count("cannot be launched") > 6, "it is tried again and again")
        assert runtime.health("10-lost").state == "not launched"
    assert "crash loop" not in caplog.text
    assert f"plugin 10-lost cannot be launched: {path}: {reason}" in caplog.text


@pytest.mark.parametrize(("owner", "method"), [(Starter, "start"), (Monitor, "add"), (Supervisor, "_check")])
def test_an_internal_error_ends_a_run_and_the_plugin_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: type, method: str
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.01))
    broken = ["first", "second"]
    complete = getattr(owner, method)

    def sometimes(*arguments: object) -> object:
        if broken:
            raise RuntimeError(f"can't start new thread: {broken.pop(0)}")
        return complete(*arguments)

    monkeypatch.setattr(owner, method, sometimes)
    pids = tmp_path / "pids"
    script = f"#!{sys.executable}\nimport nri, os\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\n"
    code = "class Told(nri.Plugin):\n    def start_container(self, pod, container): pass\nTold.main()\n"
    path = write_program(tmp_path / "plugins", "10-told", script + code)
    with FakeRuntime(plugin_path=str(path.parent)) as runtime:
        wait_for(lambda: runtime.health("10-told").state == "active", "it takes part in the end")
        assert runtime.health("10-told").restarts == 2
        assert runtime.health("10-told").last_words == (
            "an error of the runtime: RuntimeError: can't start new thread: second"
        )
        *before, _ = pids.read_text().split()
        assert not [pid for pid in before if Path("/proc", pid).exists()], "a run without a supervisor continues"
    assert "plugin 10-told: an error in the runtime ended its run" in caplog.text


def test_a_group_writable_configuration_blocks_the_launch_until_it_is_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.01))
    path = write_program(tmp_path / "plugins", "10-conf", f"#!{sys.executable}\n{IDLE}")
    drop_in = tmp_path / "conf.d" / "10-conf.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("{}")
    drop_in.chmod(0o664)
    with FakeRuntime(plugin_path=str(path.parent), plugin_config_path=str(drop_in.parent)) as runtime:
        wait_for(lambda: caplog.text.count("cannot be launched") > 6, "it is tried again and again")
        row = runtime.health("10-conf")
        assert row.state == row.stage == "not launched" and "10-conf.conf" in row.last_error
        assert "crash loop" not in caplog.text
        drop_in.chmod(0o644)
        wait_for(lambda: runtime.health("10-conf").state == "active", "it takes part")
        drop_in.chmod(0o664)
        os.kill(runtime.health("10-conf").pid, signal.SIGKILL)
        wait_for(lambda: runtime.health("10-conf").state == "not launched", "the drop-in counts at each start")
        assert "10-conf.conf" in runtime.health("10-conf").last_error


IDLE = """import nri
class Conf(nri.Plugin):
    def start_container(self, pod, container): pass
Conf.main()
"""


def test_a_plugin_with_an_unreadable_configuration_is_not_launched(tmp_path: Path) -> None:
    write_program(tmp_path / "plugins", "10-conf", "#!/bin/sh\necho never\n")
    config = tmp_path / "conf.d"
    (config / "10-conf.conf").mkdir(parents=True)
    with FakeRuntime(plugin_path=str(tmp_path / "plugins"), plugin_config_path=str(config)) as runtime:
        error = runtime.health("10-conf").last_error
        assert error.endswith("10-conf.conf: the configuration of plugin 10-conf cannot be read: it is not a file")


def test_an_invalid_plugin_file_is_logged_and_the_others_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "plugins"
    write_program(folder, "nameless", "#!/bin/sh\n")
    write_program(folder, "10-there", "#!/nowhere/python\n")
    with FakeRuntime(plugin_path=str(folder)) as runtime:
        assert [row.plugin for row in runtime.plugins] == ["10-there"]
    assert f"not a plugin, skipped: {folder / 'nameless'}: " in caplog.text


def test_an_unprintable_file_name_is_ignored_and_escaped_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("10-clears\x1b[2J", "20-forged\nERROR", "nameless\x1b[2J"):
        write_program(tmp_path, name, "#!/bin/sh\nexit 1\n")
    with FakeRuntime(plugin_path=str(tmp_path)) as runtime:
        assert runtime.plugins == []
    log_lines = [record.getMessage() for record in caplog.records]
    assert len(log_lines) == 3 and all(map(str.isprintable, log_lines)), log_lines
    assert all(any(name in record for record in log_lines) for name in (r"10-clears\x1b[2J", r"20-forged\nERROR"))
