"""The deviations that concern plugins, not merging: each in both modes. Tests are named like attributes of `Rules`."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest

import nri
from nri.adaptation import Adaptation, BuiltinPlugin
from nri.adaptation.launch.discovery import discover
from nri.adaptation.peers.synchronize import hand_over
from nri.api import messages as m
from nri.errors import ConfigError, LocalProtocolError, NriError, PluginError, RegistrationError, RpcError
from nri.policies.default_validator import ValidatorConfig
from nri.rules import Rules
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, eventually, register, request

Mode = Literal["default", "reference"]
both = pytest.mark.parametrize("mode", ["default", "reference"])


class Quiet(nri.Plugin):
    def __init__(self) -> None:
        self.told = threading.Event()

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if container.name == "bad":
            raise ValueError("boom")

    def shutdown(self) -> None:
        self.told.set()


@both
def test_live_socket_kept(mode: Mode, tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path):
        first = os.stat(path)
        if mode == "default":
            with pytest.raises(OSError, match="in use: another process listens there"):
                FakeRuntime(socket_path=path, compat=mode)
            assert os.path.samestat(os.stat(path), first)
        else:
            with FakeRuntime(socket_path=path, compat=mode):
                assert not os.path.samestat(os.stat(path), first)


@both
def test_errors_name_plugin(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Quiet())
        with pytest.raises(NriError) as caught:
            runtime.start_container(None, make_container(name="bad"))
    if mode == "reference":  # the name is the plugin's own word, which is all that such a runtime's users get
        assert str(caught.value) == "rpc error: code = Unknown desc = plugin 10-quiet: ValueError: boom"
        assert isinstance(caught.value, RpcError)
    else:
        assert str(caught.value) == "plugin 10-quiet: rpc error: code = Unknown desc = ValueError: boom"
        assert isinstance(caught.value, PluginError)


@both
def test_duplicates_refused(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Quiet())
        if mode == "default":
            with pytest.raises(RegistrationError, match="plugin 10-quiet is connected already"):
                runtime.add(Quiet())
            assert [row.state for row in runtime.plugins if row.plugin == "10-quiet"] == ["active"]
        else:
            runtime.add(Quiet())
            eventually(lambda: len(runtime.adaptation._chain.peers) == 2, "both take part")


def test_a_plugin_whose_predecessor_has_hung_up_takes_its_place(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, "quiet").join()
    raw.close()
    nri_runtime.add(Quiet())
    nri_runtime.start_container()


@both
def test_registers_once(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        raw = RawPlugin(runtime).join()
        raw.sock.sendall(register("other", "20", stream_id=3))
        if mode == "default":
            raw.wait_for(b"registered on this connection already")
            assert [row.plugin for row in runtime.plugins] == ["10-raw"]
        else:
            eventually(lambda: any(row.plugin == "20-other" for row in runtime.plugins), "it took the new name")
        raw.close()


@both
def test_updates_need_registration(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.create_container(make_pod(), make_container(id="c1"))
        update = m.ContainerUpdate(container_id="c1")
        update.linux.resources.cpu.shares.value = 5
        raw = RawPlugin(runtime)
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[update])))
        if mode == "default":
            raw.wait_for(b"only taken from plugins that are registered")
            assert runtime.updates == []
        else:
            eventually(lambda: runtime.updates, "the update was taken")
        raw.close()


def program(folder: Path, name: str, mode: int = 0o755) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)


def test_bad_files_skipped(tmp_path: Path) -> None:
    for name in ("10-good", "bad", "1-short"):
        program(tmp_path, name)
    program(tmp_path, "20-writable", 0o777)
    found, skipped = discover(str(tmp_path), Rules.DEFAULT)
    assert [each.label for each in found] == ["10-good"]
    assert {Path(each.path).name: each.reason.split(";")[0] for each in skipped} == {
        "bad": 'invalid plugin name "bad", idx-pluginname expected',
        "1-short": 'invalid plugin index "1", must be 2 digits',
        "20-writable": "it can be written by group or others (mode 0777)",
    }
    with pytest.raises(ConfigError, match="failed to discover plugins: invalid plugin"):
        discover(str(tmp_path), Rules.REFERENCE)
    for name in ("bad", "1-short"):
        (tmp_path / name).unlink()
    assert [each.label for each in discover(str(tmp_path), Rules.REFERENCE)[0]] == ["10-good", "20-writable"]


@both
def test_launched_plugins_restart(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nri.backoff import Backoff

    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.01))
    runs = tmp_path / "runs"
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "10-dies").write_text(f"#!/bin/sh\necho run >> {runs}\nexit 1\n")
    (folder / "10-dies").chmod(0o755)
    with FakeRuntime(compat=mode, plugin_path=str(folder)) as runtime:
        if mode == "default":
            eventually(lambda: len(runs.read_text().split()) >= 3, "it was started again")
        else:
            eventually(lambda: runtime.health("10-dies").state == "gone", "its end was noticed")
            assert len(runs.read_text().split()) == 1


def test_a_launched_plugin_whose_configuration_changes_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.LOOK_S", 0.02)
    folder, config = tmp_path / "plugins", tmp_path / "conf.d"
    folder.mkdir()
    config.mkdir()
    told = tmp_path / "told"
    (folder / "10-told").write_text(
        f"#!{sys.executable}\nimport nri\nclass Told(nri.Plugin):\n"
        "    class Config:\n        word: str = 'none'\n"
        f"    def configure(self): open({str(told)!r}, 'a').write(self.config.word + ' ')\n"
        "    def start_container(self, pod, container): pass\nTold.main()\n"
    )
    (folder / "10-told").chmod(0o755)
    with FakeRuntime(plugin_path=str(folder), plugin_config_path=str(config)) as runtime:
        assert runtime.adaptation.ready(["10-told"], 20), runtime.plugins
        (config / "told.conf").write_text("word: common\n")
        eventually(lambda: told.read_text() == "none common ", "the plugin got the new file")
        (config / "10-told.conf").write_text("word: own\n")
        eventually(lambda: told.read_text() == "none common own ", "its own file comes before the common one")
        assert runtime.adaptation.ready(["10-told"], 20)
        assert runtime.health("10-told").restarts == 2


@both
def test_shutdown_is_sent(mode: Mode) -> None:
    plugin = Quiet()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(plugin)
    assert plugin.told.is_set() is (mode == "default")


@pytest.mark.parametrize("each", [True, False])
def test_synchronize_timeout_per_message(each: bool) -> None:
    """`Rules.synchronize_timeout_per_message` is `each` of the hand_over."""
    deadlines: list[float] = []

    def call(part: bytes, deadline: float) -> bytes:
        import time

        deadlines.append(deadline)
        time.sleep(0.002)
        more = m.SynchronizeRequest.FromString(part).more
        encoded: bytes = m.SynchronizeResponse(more=more).SerializeToString()
        return encoded

    containers = [make_container(annotations={"padding": "x" * 500_000}) for _ in range(10)]
    hand_over(call, [], containers, 5.0, each=each)
    assert len(deadlines) > 3
    assert len(set(deadlines)) == (len(deadlines) if each else 1)


@both
def test_lost_validators_refuse(mode: Mode) -> None:
    class Kills(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            validator.close()
            eventually(lambda: runtime.health("99-validator").state == "gone", "the validator is gone")

    with FakeRuntime(compat=mode) as runtime:
        bit = 1 << m.Event.VALIDATE_CONTAINER_ADJUSTMENT - 1
        validator = RawPlugin(runtime, "validator", "99", events=bit).join()
        runtime.add(Kills())
        if mode == "reference":
            runtime.create_container()
        else:
            with pytest.raises(NriError, match="99-validator has left before it was asked"):
                runtime.create_container()


@both
def test_indexed_names_exact(mode: Mode) -> None:
    class Creates(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    class Imposter(Creates):
        name = "10-guard"

    class Guard(Creates):
        name = "guard"

    required = ValidatorConfig(enable=True, required_plugins=("10-guard",))
    with FakeRuntime(compat=mode, default_validator=required) as runtime:
        runtime.add(Imposter(), idx="99")
        if mode == "reference":
            runtime.create_container()
        else:
            with pytest.raises(NriError, match='required plugin "10-guard" not present'):
                runtime.create_container()
            runtime.add(Guard(), idx="10").create_container()


@both
def test_validators_see_answerers(mode: Mode) -> None:
    seen: list[list[str]] = []

    class Validator:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
            seen.append([plugin.name for plugin in request.plugins])

    class Adjusts(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    with FakeRuntime(compat=mode, builtin=[BuiltinPlugin("99", "validator", Validator())]) as runtime:
        runtime.add(Quiet()).add(Adjusts())
        runtime.create_container()
    assert seen == [["adjusts"] if mode == "default" else ["quiet", "adjusts", "validator"]]


@both
def test_unsolicited_evictions_kept(mode: Mode) -> None:
    plugin = Quiet()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(plugin)
        runtime.create_container(None, make_container(id="c1"))
        plugin.runtime.evict("c1", "too loud").result(timeout=10)
        reasons: list[Any] = [eviction.reason for eviction in runtime.evictions]
    assert reasons == (["too loud"] if mode == "default" else [])


@both
def test_late_answer_costs_event(mode: Mode) -> None:
    class Late(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            time.sleep(0.2)

    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Late()).timeout(0.02)
        runtime.start_container()
        assert runtime.health("10-late").state == ("late" if mode == "default" else "gone")


class Hangs(nri.Plugin):
    """Declares that it must be asked, and does not answer."""

    failure_policy = nri.FailurePolicy(fail_request=True, keep_connected=True)

    def __init__(self) -> None:
        self.go = threading.Event()

    def _wait(self, *_: object) -> None:
        self.go.wait(20)

    run_pod_sandbox = start_container = stop_container = stop_pod_sandbox = _wait
    remove_container = remove_pod_sandbox = create_container = _wait


def outcomes(runtime: FakeRuntime) -> dict[str, bool]:
    """Which events of a pod pass, Run before Stop before Remove."""
    passed = {}
    for name in ("run_pod_sandbox", "start_container", "stop_container", "remove_container",
                 "stop_pod_sandbox", "remove_pod_sandbox"):  # fmt: skip
        try:
            getattr(runtime, name)()
        except NriError:
            passed[name] = False
        else:
            passed[name] = True
    return passed


_DISPOSAL = {"stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox"}


@both
def test_declared_failure_spares_stop(mode: Mode) -> None:
    with FakeRuntime(compat=mode, policy="[defaults]\nbreaker = false\n") as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        for name, passed in outcomes(runtime).items():
            assert passed is (mode == "default" and name in _DISPOSAL), name
        hangs.go.set()


@both
def test_open_breaker_lets_go(mode: Mode) -> None:
    with FakeRuntime(compat=mode, policy='[defaults]\nbreaker = { misses = 2, retry = "1h" }\n') as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        for _ in range(2):
            with pytest.raises(NriError, match="10-hangs"):
                runtime.start_container()
        assert runtime.health("10-hangs").state == "open"
        assert set(outcomes(runtime).values()) == {mode == "default"}
        hangs.go.set()


def test_the_request_on_which_a_plugin_is_tried_again_passes_as_if_it_were_left_out() -> None:
    with FakeRuntime(policy='[defaults]\nbreaker = { misses = 1, retry = "1ms" }\n') as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.run_pod_sandbox()
        for _ in range(3):
            time.sleep(0.002)
            runtime.run_pod_sandbox()
        hangs.go.set()


def test_what_the_operator_requires_is_refused_by_an_open_breaker_and_stop_and_remove_pass() -> None:
    policy = '["10-hangs"]\nrequired = true\nbreaker = { misses = 1, retry = "1h" }\n'
    with FakeRuntime(policy=policy) as runtime:
        hangs = Hangs()
        runtime.add(hangs).timeout(0.02)
        with pytest.raises(NriError, match="10-hangs"):
            runtime.start_container()
        for name, passed in outcomes(runtime).items():
            assert passed is (name in _DISPOSAL), name
        hangs.go.set()


@both
def test_other_updates_limited(mode: Mode) -> None:
    class Asks(nri.Plugin):
        def __init__(self, first: int) -> None:
            self.first = first

        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> Any:
            return many(self.first)

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    plugin = Asks(10)
    with FakeRuntime(compat=mode, containers=[make_container(id=f"c{n}") for n in range(900)]) as runtime:
        runtime.add(plugin)
        wanted = many(6000)
        if mode == "default":
            with pytest.raises(
                RpcError, match="plugin 10-asks: its request UpdateContainers has more than 16000 entries"
            ):
                plugin.runtime.update(*wanted).result(timeout=20)
            assert runtime.health("10-asks").state == "active"
            assert "has more than 16000 entries" in runtime.health("10-asks").last_error
        else:
            plugin.runtime.update(*wanted).result(timeout=20)
            assert len(runtime.updates) == 910, "those of containers that are there"
        if mode == "default":
            with pytest.raises(NriError):
                runtime.add(Asks(6000), name="much")
            error = runtime.health("10-much").last_error
            assert error == "failed to synchronize: the reply to Synchronize has more than 16000 entries"
        else:
            runtime.add(Asks(6000), name="much")


def many(count: int) -> list[nri.Update]:
    return [nri.Update(f"c{n}").set_cpu_shares(5) for n in range(count)]


@both
def test_hooks_only_when_set(mode: Mode) -> None:
    seen: list[bool] = []

    class Validator:
        def validate_container_adjustment(self, request: m.ValidateContainerAdjustmentRequest) -> None:
            seen.append(request.adjust.HasField("hooks"))

    hooks = {"plain": nri.Adjustment().add_env("A", "1"), "hooked": nri.Adjustment().add_hooks(_hooks())}

    class Adjusts(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return hooks[container.name]

    with FakeRuntime(compat=mode, builtin=[BuiltinPlugin("99", "validator", Validator())]) as runtime:
        runtime.add(Adjusts())
        for name in hooks:
            runtime.create_container(None, make_container(name=name))
    assert seen == ([False, True] if mode == "default" else [True, True])


def _hooks() -> m.Hooks:
    return m.Hooks(prestart=[m.Hook(path="/bin/true")])


@both
def test_events_need_start(mode: Mode) -> None:
    adaptation = Adaptation(
        "r", "1", synchronize=lambda: ([], []), update=lambda updates: None, plugin_path="/nonexistent",
        disable_connections=True, policy_path=None, compat=mode,
    )  # fmt: skip

    def told() -> str:
        try:
            adaptation.run_pod_sandbox(make_pod())
        except LocalProtocolError as error:
            return str(error)
        return ""

    before = told()
    adaptation.start()
    between = told()
    adaptation.stop()
    if mode == "reference":
        assert [before, between, told()] == ["", "", ""]
    else:
        assert before == "RunPodSandbox: the adaptation has not been started: call start() first"
        assert (between, told()) == ("", "RunPodSandbox: the adaptation is stopped")
