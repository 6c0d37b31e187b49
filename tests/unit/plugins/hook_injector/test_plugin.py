"""`hook-injector` through the adaptation; that its replies are the Go plugin's is in tests/conformance."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from nri.errors import NriError, PluginRejected
from nri.plugins.hook_injector import plugin as module
from nri.plugins.hook_injector.plugin import DIRECTORIES, HookInjector
from nri.testing import FakeRuntime, make_container
from tests.support.plugin_program import Listener, plugin_program
from tests.support.waiting import wait_for


def text_of(argument: str, when: object = None) -> str:
    hook = {"path": "/bin/sh", "args": [argument]}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": ["prestart"]})


def injected(runtime: FakeRuntime) -> list[str]:
    """The arguments of the hooks that a container gets now."""
    return [hook.args[0] for hook in runtime.create_container().hooks.create_runtime]


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """The one directory of hooks; it is not there yet."""
    return tmp_path / "hooks.d"


def config(*directories: Path, **keys: object) -> str:
    return json.dumps({"hooks_dirs": [str(directory) for directory in directories], **keys})


def test_the_default_directories_equal_those_of_cri_o_and_podman() -> None:
    assert tuple(HookInjector().config.hooks_dirs) == DIRECTORIES
    assert DIRECTORIES == ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")


def test_a_changed_hook_applies_to_the_next_container(hooks: Path) -> None:
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(HookInjector(), config=config(hooks))
        assert injected(runtime) == []
        hooks.mkdir()
        (hooks / "a.json").write_text(text_of("a"))
        assert injected(runtime) == ["a"]
        (hooks / "b.json").write_text(text_of("b"))
        assert injected(runtime) == ["a", "b"]
        (hooks / "a.json").unlink()
        assert injected(runtime) == ["b"]


def test_an_invalid_file_is_logged_at_once_and_hooks_are_kept(
    hooks: Path, nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    nri_runtime.add(HookInjector(), config=config(hooks))
    (hooks / "b.json").write_text(text_of("b").replace("prestart", "never"))
    expected = f"{hooks}/b.json:1: stages[0]: expected one of prestart"
    wait_for(lambda: [text for text in caplog.messages if text.startswith(expected)], "the mistake in the log")
    assert injected(nri_runtime) == injected(nri_runtime) == ["a"]
    assert len([text for text in caplog.messages if "stages[0]" in text]) == 1
    assert "the previous hooks stay in force" in caplog.text
    (hooks / "b.json").write_text(text_of("b"))
    assert injected(nri_runtime) == ["a", "b"]


def test_the_log_has_the_hooks_and_their_containers(
    hooks: Path, nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    (hooks / "b.json").write_text(text_of("b", {"commands": ["sh"]}))
    nri_runtime.add(HookInjector(), config=config(hooks))
    nri_runtime.create_container(container=make_container(name="app", args=["true"]))
    assert f"hooks of {hooks}: a.json, b.json" in caplog.messages
    assert "OCI hooks injected: a.json [pod default/pod, container app]" in caplog.messages


def test_a_repeated_mistake_is_logged_once(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
    hooks.mkdir()
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(HookInjector(), config=config(hooks))
        for ending in ("", "\n", "\n\n"):
            (hooks / "a.json").write_text(text_of("a").replace("prestart", "never") + ending)
            assert injected(runtime) == []
        assert caplog.text.count("a.json:1: stages[0]: expected one of") == 1
        (hooks / "a.json").write_text(text_of("a"))
        assert injected(runtime) == ["a"]
        (hooks / "a.json").write_text(text_of("a").replace("prestart", "never"))
        assert injected(runtime) == ["a"]
        assert caplog.text.count("a.json:1: stages[0]: expected one of") == 2


def test_a_hook_without_its_program_logs_a_warning_and_is_skipped(
    hooks: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    (hooks / "b.json").write_text(text_of("b").replace("/bin/sh", "/none/sh"))
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(HookInjector(), config=config(hooks))
        assert injected(runtime) == ["a"]
    (message,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert message.startswith(f"{hooks}/b.json: hook.path: /none/sh does not exist")


def test_the_readme_shows_the_message_about_an_invalid_file(
    hooks: Path, nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    page = Path(module.__file__).with_name("README.md").read_text()
    example = re.search(r"```json file=10-gpu.json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    hooks.mkdir()
    nri_runtime.add(HookInjector(), config=config(hooks))
    written = hooks.with_name("10-gpu.json")
    written.write_text(example[1].replace("createRuntime", "createruntime"))
    written.rename(hooks / "10-gpu.json")  # in one step: the plugin looks by itself as well
    nri_runtime.create_container()
    # The plugin's own check may have read the file just before the check at the creation; it then logs a moment later.
    wait_for(lambda: "ERROR" in {record.levelname for record in list(caplog.records)}, "the error about the file")
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    line = message.replace(str(hooks), "/etc/containers/oci/hooks.d").partition(" [pod")[0]
    assert f"```text\n{line}\n```" in page, line


def test_an_invalid_file_at_the_start_is_an_error_with_file_and_key(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a").replace("/bin/sh", "bin/sh"))
    with pytest.raises(NriError, match=r"a\.json:1: hook\.path: .*bin/sh.* must be an absolute path"):
        nri_runtime.add(HookInjector(), config=config(hooks))


def test_an_invalid_file_at_a_reconnect_keeps_the_hooks(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    nri_runtime.add(HookInjector(), config=config(hooks))
    (hooks / "a.json").write_text("{")
    nri_runtime.restart()
    assert injected(nri_runtime) == ["a"]


def test_unwatched_directories_are_read_once(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(HookInjector(), config=config(hooks, disable_watch=True))
        (hooks / "b.json").write_text(text_of("b"))
        runtime.tick()
        assert injected(runtime) == ["a"]


def test_a_hook_that_cannot_be_evaluated_refuses_the_container(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a", {"commands": ["sh"]}))
    nri_runtime.add(HookInjector(), config=config(hooks))
    with pytest.raises(PluginRejected, match=r'matching hook "a.json": process.args must have at least one entry'):
        nri_runtime.create_container(container=make_container(args=[]))


def test_hooks_are_added_to_the_list_of_their_stage(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    for stage in module.HOOK_LISTS:
        (hooks / f"{stage}.json").write_text(text_of(stage).replace("prestart", stage))
    nri_runtime.add(HookInjector(), config=config(hooks))
    injected = nri_runtime.create_container().hooks
    assert [hook.args[0] for hook in injected.create_runtime] == ["createRuntime", "prestart"]
    for stage, name in list(module.HOOK_LISTS.items())[2:]:
        assert [hook.args[0] for hook in getattr(injected, name)] == [stage]
    assert not injected.prestart


def test_the_flags_are_the_go_plugins_and_one_for_directories(hooks: Path, tmp_path: Path) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    arguments = ["-m", "nri.plugins.hook_injector.plugin", "-idx", "10", "-disableWatch", f"-hooks-dirs=/none,{hooks}"]
    with Listener(tmp_path / "s") as listener:
        with plugin_program(tmp_path, *arguments, "-socket-path", tmp_path / "s") as program:
            listener.accept().begin()
            program.wait_text(f"hooks of /none, {hooks}: a.json")
