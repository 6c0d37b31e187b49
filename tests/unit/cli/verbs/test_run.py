"""`nri run`: plugin classes, mistakes of authors, reload and flags."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.cli.settings import Settings
from nri.cli.verbs.run import split, stub_arguments
from nri.plugins.reload import LOAD_TIMEOUT_S
from nri.trace.history import Trace
from tests.support.scripted_runtime import ScriptedRuntime
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import command, complete, environment

PLUGIN = """\
import nri

class PodName(nri.Plugin):
    class Config:
        variable: str = "POD_NAME"
    config: Config

    def create_container(self, pod, container):
        return nri.Adjustment().add_env(self.config.variable, pod.name)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "pod_name.py"
    path.write_text(PLUGIN)
    return path


class Runs:
    """A runtime for `nri run`: takes each plugin that comes, asks it for one adjustment, and remembers who it was."""

    def __init__(self, listen, *, keep: bool = False) -> None:
        self.names: list[str] = []
        self.env: list[dict[str, str]] = []
        self.keep = keep
        self.arrived = threading.Semaphore(0)
        self.over = threading.Event()
        self.path = listen(self._script)

    def _script(self, runtime: ScriptedRuntime) -> None:
        registered = runtime.register()
        runtime.configure()
        runtime.call("Synchronize", m.SynchronizeRequest())
        request = m.CreateContainerRequest(pod=m.PodSandbox(name="web"), container=m.Container(id="c"))
        reply = m.CreateContainerResponse.FromString(runtime.call("CreateContainer", request).payload)
        self.names.append(f"{registered.plugin_idx}-{registered.plugin_name}")
        self.env.append({one.key: one.value for one in reply.adjust.env})
        self.arrived.release()
        if self.keep:
            runtime.closed_by_plugin()


def test_requests_and_answers_of_a_plugin_can_be_recorded(nri, listen, plugin: Path, tmp_path: Path) -> None:
    runs, folder = Runs(listen), tmp_path / "traces"
    words = ("--record", folder, "--redact", "none", "--no-reconnect", "--socket-path", runs.path)
    result = nri("run", *map(str, (plugin, "--idx", "10", *words)))
    assert result.returncode == 3, result.stderr
    trace = Trace(folder)
    steps = {(event.name, step.plugin): step.reply for event in trace.events() for step in event.steps}
    reply = m.CreateContainerResponse.FromString(steps["CreateContainer", "10-pod-name"] or b"")
    assert [(entry.key, entry.value) for entry in reply.adjust.env] == [("POD_NAME", "web")]
    assert not trace.problems


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["{file}", "--idx", "10"], "10-pod-name"),
        (["{file}", "-idx", "10", "-name", "other"], "10-other"),
        (["{file}"], "50-pod-name"),
        (["{file}:PodName", "--idx", "07"], "07-pod-name"),
        (["pod_name:PodName", "--idx", "08"], "08-pod-name"),
        (["pod_name", "--idx", "09"], "09-pod-name"),
    ],
)
def test_a_plugin_can_be_a_file_or_a_module(nri, listen, plugin: Path, arguments: list[str], name: str) -> None:
    runs = Runs(listen)
    words = [word.format(file=plugin) for word in arguments]
    result = nri("run", *words, "--no-reconnect", "--socket-path", runs.path, cwd=plugin.parent)
    assert result.returncode == 3, "the scripted runtime goes away, and without reconnect that is the end"
    assert (runs.names, runs.env) == ([name], [{"POD_NAME": "web"}]), result.stderr


@pytest.mark.parametrize(
    ("file", "flags", "name"),
    [("any.py", [], "50-pod-name"), ("33-other.py", [], "33-other"), ("any.py", ["--idx", "07"], "07-pod-name")],
)
def test_a_file_is_the_same_plugin_with_and_without_nri_run(
    nri, listen, plugin: Path, file: str, flags: list[str], name: str
) -> None:
    runs = Runs(listen)
    named = plugin.rename(plugin.with_name(file))
    named.write_text(f"{PLUGIN}\nif __name__ == '__main__':\n    PodName.main()\n")
    words = [str(named), *flags, "--no-reconnect", "--socket-path", runs.path]
    nri("run", *words)
    subprocess.run([sys.executable, *words], check=False, capture_output=True, env=environment())
    assert runs.names == [name, name]


def test_the_configuration_file_reaches_the_plugin(nri, listen, plugin: Path, tmp_path: Path) -> None:
    runs = Runs(listen)
    (tmp_path / "c.yaml").write_text("variable: POD\n")
    nri(
        "run",
        str(plugin),
        "--idx",
        "10",
        "--config",
        str(tmp_path / "c.yaml"),
        "--no-reconnect",
        "--socket-path",
        runs.path,
    )
    assert runs.env == [{"POD": "web"}]


def test_an_invalid_configuration_exits_with_2_and_file_line_suggestion(
    nri, listen, plugin: Path, tmp_path: Path
) -> None:
    runs = Runs(listen)
    (tmp_path / "c.yaml").write_text("\nvariabel: POD\n")
    result = nri("run", str(plugin), "--idx", "10", "--config", str(tmp_path / "c.yaml"), "--socket-path", runs.path)
    assert result.returncode == 2
    assert f'{tmp_path}/c.yaml:2: variabel: unknown key (did you mean "variable"?)' in result.stderr


def test_without_reconnect_a_missing_socket_exits_with_3(nri, plugin: Path) -> None:
    result = nri("run", str(plugin), "--no-reconnect", "--socket-path", "/nowhere/nri.sock")
    assert result.returncode == 3
    assert "cannot connect to /nowhere/nri.sock" in result.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import nri\nclass A(nri.Plugin):\n  x = (\n", "plugin.py:3: "),
        ("import nri\n\nraise ValueError('no')\n", "plugin.py:3: ValueError: no"),
        ("import missing_thing\n", "plugin.py:1: ModuleNotFoundError: No module named 'missing_thing'"),
        (
            "import nri\nclass A(nri.Plugin):\n  def create_containr(self, pod, container): ...\n",
            "did you mean create_container",
        ),
        ("x = 1\n", "no class that inherits from nri.Plugin"),
        (PLUGIN + PLUGIN.replace("PodName", "Other"), "several plugin classes: PodName, Other. Choose a class: "),
    ],
)
def test_a_mistake_of_the_author_is_one_line_with_its_position(nri, tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "plugin.py").write_text(text)
    result = nri("run", str(tmp_path / "plugin.py"), "--idx", "10")
    assert result.returncode == 2
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("gone.py", "gone.py: no such file"),
        ("20=gone.py:A", "20=gone.py:A: the index follows the plugin. try: nri run gone.py:A --idx 20"),
        ("./pod.yaml", "pod.yaml:2: not Python: invalid syntax: metadata:"),
        ("no_such_module:X", "no_such_module: neither a file nor a module of this name exists"),
        ("json:JSONDecoder", "JSONDecoder is not a plugin class: it must inherit"),
    ],
)
def test_a_missing_target_is_an_error_with_its_name(nri, tmp_path: Path, target: str, line: str) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata:\n  name: web\n")
    result = nri("run", target, "--idx", "10", cwd=tmp_path)
    assert result.returncode == 2
    assert line in result.stderr


def test_the_most_derived_class_is_the_plugin(nri, listen, plugin: Path) -> None:
    plugin.write_text(PLUGIN + "\nclass Child(PodName):\n    pass\n")
    runs = Runs(listen)
    nri("run", str(plugin), "--idx", "10", "--no-reconnect", "--socket-path", runs.path)
    assert runs.names == ["10-child"]


def test_events_without_a_handler_exit_with_1_without_a_retry(nri, listen, plugin: Path) -> None:
    met: list[str] = []

    def script(runtime: ScriptedRuntime) -> None:
        met.append(runtime.register().plugin_name)
        runtime.configure()
        runtime.closed_by_plugin()

    result = nri("run", str(plugin), "--idx", "10", "--events", "StopContainer", "--socket-path", listen(script))
    assert (result.returncode, met) == (1, ["pod-name"])
    assert result.stderr.splitlines()[-1] == "error: PodName handles none of the selected events: StopContainer"


def test_sigterm_exits_with_0(listen, plugin: Path) -> None:
    runs = Runs(listen, keep=True)
    process = subprocess.Popen(
        command("run", str(plugin), "--idx", "10", "--socket-path", runs.path),
        env=environment(),
        stderr=subprocess.PIPE,
    )
    assert runs.arrived.acquire(timeout=20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert process.stderr is not None
    process.stderr.close()


def log_line(process: subprocess.Popen[str]) -> str:
    """The next line that is about reloading."""
    assert process.stderr is not None
    return next(line for line in process.stderr if line.startswith("nri: "))


def rewrite(plugin: Path, text: str) -> None:
    """Replace a plugin's text in one step, because a half-written file would be another mistake."""
    (temporary := plugin.with_suffix(".new")).write_text(text)
    temporary.replace(plugin)


MISTAKES = {
    "def half(:\n": "pod_name.py:1: invalid syntax: def half(:",
    "import nri\nimport no_such_module\n": "pod_name.py:2: ModuleNotFoundError: No module named 'no_such_module'",
    PLUGIN.replace(
        "create_container", "on_create"
    ): "PodName.on_create is not an NRI event; did you mean create_container?",
    "import sys\nsys.exit(3)\n": "pod_name.py: the import ended with exit code 3",
}


@contextmanager
def reloading(plugin: Path, runs: Runs) -> Iterator[subprocess.Popen[str]]:
    """`nri run --reload` of a plugin, until the end of the `with`."""
    process = subprocess.Popen(
        command("run", str(plugin), "--idx", "10", "--reload", "--socket-path", runs.path),
        env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_reload_keeps_the_old_plugin_while_its_file_has_a_mistake(listen, plugin: Path) -> None:
    runs = Runs(listen, keep=True)
    with reloading(plugin, runs) as process:
        assert process.stderr is not None
        assert runs.arrived.acquire(timeout=30)
        for text, mistake in MISTAKES.items():
            rewrite(plugin, text)
            line = log_line(process)
            assert mistake in line
            assert line.endswith(" (the previous plugin still runs; waiting for a change)\n")
        rewrite(plugin, PLUGIN.replace('"POD_NAME"', '"POD_NAME_2"'))
        assert log_line(process) == "nri: a file has changed; restarting the plugin\n"
        assert runs.arrived.acquire(timeout=30)
        assert runs.env == [{"POD_NAME": "web"}, {"POD_NAME_2": "web"}]


def test_reload_can_be_ended_while_a_file_is_loading(listen, plugin: Path, tmp_path: Path) -> None:
    runs, loading = Runs(listen, keep=True), tmp_path / "loading"
    with reloading(plugin, runs) as process:
        assert runs.arrived.acquire(timeout=30)
        rewrite(plugin, f"import pathlib, time\npathlib.Path({str(loading)!r}).touch()\ntime.sleep(600)\n")
        wait_for(loading.exists, "the changed file is being loaded")
        process.send_signal(signal.SIGINT)
        assert process.wait(LOAD_TIMEOUT_S / 2) == 128 + signal.SIGINT


def test_reload_starts_a_plugin_after_its_first_mistake_is_fixed(listen, plugin: Path) -> None:
    runs = Runs(listen, keep=True)
    rewrite(plugin, "raise ValueError('half written')\n")
    with reloading(plugin, runs) as process:
        assert process.stderr is not None
        assert any("the plugin ended with exit code 2; waiting for a change" in line for line in process.stderr)
        rewrite(plugin, "raise ValueError('still')\n")
        assert log_line(process).endswith("pod_name.py:1: ValueError: still (no plugin runs; waiting for a change)\n")
        rewrite(plugin, PLUGIN)
        assert runs.arrived.acquire(timeout=30)


def test_reload_restarts_the_plugin_when_its_file_changes(listen, plugin: Path) -> None:
    runs = Runs(listen, keep=True)
    with reloading(plugin, runs) as process:
        assert process.stderr is not None
        assert runs.arrived.acquire(timeout=30)
        plugin.write_text("raise ValueError('half written')\n")
        for line in process.stderr:
            if "waiting for a change" in line:
                break
        plugin.write_text(PLUGIN.replace('"POD_NAME"', '"POD_NAME_2"'))
        assert runs.arrived.acquire(timeout=30)
        assert runs.env == [{"POD_NAME": "web"}, {"POD_NAME_2": "web"}]
        plugin.write_text(PLUGIN.replace("pod.name", 'pod.labels["tier"]'))
        assert any("write pod.labels.get('tier')" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_reload_keeps_the_plugin_while_its_file_is_missing_briefly(listen, plugin: Path) -> None:
    runs = Runs(listen, keep=True)
    with reloading(plugin, runs) as process:
        assert process.stderr is not None
        assert runs.arrived.acquire(timeout=30)
        plugin.unlink()
        line = next(line for line in process.stderr if line.startswith("nri: "))
        assert line == f"nri: {plugin} does not exist; waiting for it\n"
        assert not runs.arrived.acquire(timeout=0.5), "there is nothing to start"
        assert process.poll() is None
        plugin.write_text(PLUGIN.replace('"POD_NAME"', '"POD_NAME_2"'))
        assert runs.arrived.acquire(timeout=30)
        assert runs.env == [{"POD_NAME": "web"}, {"POD_NAME_2": "web"}]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "level", "form"),
    [
        ([], "", "text"),
        (["-q"], "warning", "text"),
        (["-q", "--log-level", "info"], "info", "text"),
        (["-o", "json"], "", "json"),
        (["-o", "json", "--log-format", "text"], "", "json"),
        (["--log-format", "json"], "", "json"),
    ],
)
def test_quiet_and_json_apply_to_the_log(arguments: list[str], level: str, form: str) -> None:
    settings = Settings()
    settings.quiet, settings.output = "-q" in arguments, "json" if "-o" in arguments else "table"
    settings.log_format = "json" if arguments[-1:] == ["json"] else "text"
    flags = {"log_level": "info"} if "--log-level" in arguments else {}
    words = stub_arguments(settings, flags)
    argument = dict(zip(words[::2], words[1::2], strict=True))
    assert (argument.get("--log-level", ""), argument["--log-format"]) == (level, form)


def test_verbose_overrides_quiet_for_the_log() -> None:
    settings = Settings()
    settings.verbose, settings.quiet = 1, True
    assert stub_arguments(settings, {}) == ["--verbose", "--log-format", "text"]


def test_the_log_has_only_warnings_in_quiet_mode(nri, listen, plugin: Path) -> None:
    loud, quiet = (
        nri("run", str(plugin), "--idx", "10", "--no-reconnect", "--socket-path", Runs(listen).path, *more).stderr
        for more in ((), ("-q",))
    )
    assert "registered with" in loud
    assert [line for line in quiet.splitlines() if not line.startswith("error: lost the runtime")] == []


def test_the_timeout_applies_to_the_registration(nri, listen, plugin: Path) -> None:
    result = nri(
        "run", str(plugin), "--idx", "10", "--no-reconnect", "--timeout", "300ms",
        "--socket-path", listen(lambda runtime: runtime.closed_by_plugin()),
    )  # fmt: skip
    assert result.returncode == 3
    assert "an answer to RegisterPlugin from the runtime (0.3 s)" in result.stderr


def test_a_bundled_plugin_runs_by_name_with_its_own_flags(nri, listen, tmp_path: Path) -> None:
    runs = Runs(listen)
    words = ["template", "--idx", "11", "--cfg-param1", "one two", "--no-reconnect", "--socket-path", runs.path]
    result = nri("run", *words)
    assert (result.returncode, runs.names) == (3, ["11-template"])
    assert 'cfgParam1 "one two"' in result.stderr


def test_several_plugins_run_in_one_process_each_with_its_own_flags(nri, listen, plugin: Path, tmp_path: Path) -> None:
    runs = Runs(listen)
    (tmp_path / "c.yaml").write_text("variable: POD\n")
    words = [
        "10-template",
        str(plugin),
        "--config",
        str(tmp_path / "c.yaml"),
        "template",
        "-cfg-param1=x",
        "-name",
        "t",
    ]
    result = nri("run", *words, "--no-reconnect", "--socket-path", runs.path)
    assert result.returncode == 3
    assert result.stderr.count("error: ") == 1, "one that ends for good ends all"
    assert runs.names, result.stderr
    assert set(runs.names) <= {"10-template", "51-pod-name", "52-t"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["templat"],
            "module or plugin of this name exists; did you mean template? All registered plugins: nri plugins list",
        ),
        (["template", "--cfg-parm1", "x"], "--cfg-parm1: unknown argument (did you mean --cfg-param1?)"),
        (["template", "--cfg-param1"], "--cfg-param1: needs a value (write --cfg-param1 TEXT)"),
        (["--idx", "10", "template", "template"], "--idx applies to one plugin: put it after that plugin"),
        (["10-template", "10-template"], "10-template: two plugins have this index and name"),
        (["template", "10-template", "--idx"], "command line, 10-template: --idx: needs a value (write --idx NN)"),
        (["template", "template", "--reload"], "--reload supports only one plugin"),
    ],
)
def test_mistakes_are_one_line_with_the_next_step_and_code_2(nri, words: list[str], line: str) -> None:
    result = nri("run", *words)
    assert result.returncode == 2
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_help_of_a_named_plugin_has_its_flags(nri) -> None:
    result = nri("run", "template", "--help")
    assert result.returncode == 0
    assert result.stdout.index("Flags of template, which must follow it:") < result.stdout.index(
        "--cfg-param1 TEXT  a parameter"
    )
    assert ", which must follow it" not in nri("run", "--help").stdout


def test_arguments_after_two_dashes_belong_to_the_plugin(nri) -> None:
    result = nri("run", "template", "--", "--help")
    assert result.returncode == 0
    assert "Flags of this plugin" in result.stdout and "nri run template --idx 10" in result.stdout
    assert nri("run", "template", "--", "--version").stdout.startswith("template: nri ")


def test_the_help_of_a_plugin_without_flags_lists_none(nri, plugin: Path) -> None:
    result = nri("run", str(plugin), "template", "--help")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if "which must follow it:" in line] == [
        "Flags of template, which must follow it:"
    ]


def test_the_help_works_for_a_plugin_that_cannot_be_loaded(nri, plugin: Path) -> None:
    plugin.write_text("raise ValueError('half written')\n")
    result = nri("run", str(plugin), "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "--no-reconnect" in result.stdout and "which must follow it:" not in result.stdout


def test_a_flag_of_a_plugin_that_cannot_be_loaded_is_an_error_with_the_reason(nri, plugin: Path) -> None:
    plugin.write_text("raise ValueError('half written')\n")
    result = nri("run", str(plugin), "--cfg-param1", "x")
    assert result.returncode == 2
    assert "pod_name.py:1: ValueError: half written" in result.stderr


def test_without_a_plugin_flags_of_the_verb_are_completed() -> None:
    assert complete("nri run --no-r", 2) == ["--no-reconnect"]
    assert complete("nri run --cf", 2) == []


def test_after_a_plugin_that_cannot_be_loaded_only_flags_of_the_verb_are_completed(tmp_path: Path) -> None:
    assert complete(f"nri run {tmp_path}/gone.py --rel", 3) == ["--reload"]


OPTIONS = {"--idx": True, "-i": True, "--config": True, "--reload": False, "-v": False, "--output": True}
OWN = {"add-env": ("add_env", "NAME", ""), "verbose-level": ("level", "N", ""), "yaml": ("yaml", "", "")}


def of(text: str) -> tuple[str, list[tuple[str, str]]]:
    command_words, expected = split(text.split(), OPTIONS, lambda target: OWN)
    return " ".join(command_words), [(one.target, " ".join(one.words)) for one in expected]


@pytest.mark.parametrize(
    ("words", "command_words", "plugin_words"),
    [
        ("p --idx 10", "p", "--idx 10"),
        ("--idx 10 p --reload", "--idx 10 p --reload", ""),
        ("p --add-env A --output x", "p --output x", "--add-env A"),
        ("p -add-env=A -yaml --output=x", "p --output=x", "-add-env=A -yaml"),
        ("p -verbose-level 2 -vv", "p -vv", "-verbose-level 2"),
        ("p --unknown", "p", "--unknown"),
        ("p -- --output x", "p", "--output x"),
        ("p --add-env", "p", "--add-env"),
    ],
)
def test_known_flags_belong_to_the_command_and_others_to_the_plugin(
    words: str, command_words: str, plugin_words: str
) -> None:
    assert of(words) == (command_words, [("p", plugin_words)])


def test_an_unknown_flag_before_a_plugin_is_an_error_of_the_command() -> None:
    assert of("--add-env A p")[0] == "--add-env A p"


def test_arguments_after_each_plugin_belong_to_it() -> None:
    command_words, expected = of("-v 10-p --config a.yaml q -i 20 --add-env A --output x r")
    assert command_words == "-v 10-p q --output x r"
    assert expected == [("10-p", "--config a.yaml"), ("q", "-i 20 --add-env A"), ("r", "")]
