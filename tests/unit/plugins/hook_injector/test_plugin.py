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


def test_its_directories_are_those_of_other_readers_of_hooks() -> None:
    assert tuple(HookInjector().config.hooks_dirs) == DIRECTORIES
    assert DIRECTORIES == ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")


def test_a_change_counts_for_the_very_next_container(hooks: Path) -> None:
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


def test_a_mistake_is_told_when_it_is_made_and_hooks_stay(
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


def test_the_log_says_what_there_is_and_who_got_what(
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


def test_a_mistake_that_is_written_again_is_told_once(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_hook_without_its_program_is_warned_of_and_left_out(hooks: Path, caplog: pytest.LogCaptureFixture) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    (hooks / "b.json").write_text(text_of("b").replace("/bin/sh", "/none/sh"))
    with FakeRuntime(real_time=False) as runtime:
        runtime.add(HookInjector(), config=config(hooks))
        assert injected(runtime) == ["a"]
    (message,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert message.startswith(f"{hooks}/b.json: hook.path: /none/sh does not exist")


def test_the_page_shows_what_is_said_of_a_broken_file(
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
    # The plugin's own look may have found the file just before the creation's, and tells it a moment later.
    wait_for(lambda: "ERROR" in {record.levelname for record in list(caplog.records)}, "the file is told of")
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    line = message.replace(str(hooks), "/etc/containers/oci/hooks.d").partition(" [pod")[0]
    assert f"```text\n{line}\n```" in page, line


def test_a_broken_file_at_the_start_ends_the_plugin_by_file_and_key(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a").replace("/bin/sh", "bin/sh"))
    with pytest.raises(NriError, match=r"a\.json:1: hook\.path: .*bin/sh.* must be an absolute path"):
        nri_runtime.add(HookInjector(), config=config(hooks))


def test_a_broken_file_at_a_reconnection_changes_nothing(hooks: Path, nri_runtime: FakeRuntime) -> None:
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


def test_a_hook_that_cannot_be_judged_refuses_the_container_by_name(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a", {"commands": ["sh"]}))
    nri_runtime.add(HookInjector(), config=config(hooks))
    with pytest.raises(PluginRejected, match=r'matching hook "a.json": process.args must have at least one entry'):
        nri_runtime.create_container(container=make_container(args=[]))


def test_hooks_of_every_stage_go_to_their_list(hooks: Path, nri_runtime: FakeRuntime) -> None:
    hooks.mkdir()
    for stage in module.HOOK_LISTS:
        (hooks / f"{stage}.json").write_text(text_of(stage).replace("prestart", stage))
    nri_runtime.add(HookInjector(), config=config(hooks))
    injected = nri_runtime.create_container().hooks
    assert [hook.args[0] for hook in injected.create_runtime] == ["createRuntime", "prestart"]
    for stage, name in list(module.HOOK_LISTS.items())[2:]:
        assert [hook.args[0] for hook in getattr(injected, name)] == [stage]
    assert not injected.prestart


def test_its_flags_are_the_reference_s_and_one_for_other_directories(hooks: Path, tmp_path: Path) -> None:
    hooks.mkdir()
    (hooks / "a.json").write_text(text_of("a"))
    arguments = ["-m", "nri.plugins.hook_injector.plugin", "-idx", "10", "-disableWatch", f"-hooks-dirs=/none,{hooks}"]
    with Listener(tmp_path / "s") as listener:
        with plugin_program(tmp_path, *arguments, "-socket-path", tmp_path / "s") as program:
            listener.accept().begin()
            program.wait_text(f"hooks of /none, {hooks}: a.json")
