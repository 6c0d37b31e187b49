"""The processes that may use a plugin's name."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import nri
from nri.adaptation.audit.bounded_log import MAX_LINES
from nri.api import messages as m
from nri.config import Source
from nri.errors import NriError, RegistrationError
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.identity import refusal
from nri.plugin_policy.policy import Policies, resolve
from nri.testing import FakeRuntime
from tests.support.adapting import RawPlugin, register, request
from tests.support.waiting import wait_for

WRONG = os.geteuid() + 1


class Guard(nri.Plugin):
    name = "guard"

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...


def verdict(text: str, *, launched: bool = False, uid: int | None = 0) -> str:
    table = policy_file.parse(Source("policy.toml", f'["10-guard"]\n{text}\n', "toml"))["10-guard"]
    return refusal(resolve(table), "10-guard", launched=launched, uid=uid)


@pytest.mark.parametrize(
    ("text", "launched", "uid", "expected"),
    [
        ("", False, None, ""),
        ("uid = 0", False, 0, ""),
        ("uid = [5, 0]", False, 0, ""),
        ("uid = [5, 6]", False, 0, "user 0 may not be plugin 10-guard: its policy allows uid 5, 6"),
        ("uid = []", False, 0, "user 0 may not be plugin 10-guard: its policy allows no user"),
        ("uid = 0", False, None, "an unknown user may not be plugin 10-guard: its policy allows uid 0"),
        ("launched = true", True, 0, ""),
        (
            "launched = true",
            False,
            0,
            "plugin 10-guard must be launched by the runtime: its policy has launched = true",
        ),
        ("launched = false", True, 0, "plugin 10-guard must connect by itself: its policy has launched = false"),
    ],
)
def test_the_rules_of_a_name_decide_which_process_may_use_it(
    text: str, launched: bool, uid: int | None, expected: str
) -> None:
    assert verdict(text, launched=launched, uid=uid) == expected


@pytest.mark.parametrize("text", [f"uid = {WRONG}", "launched = true"])
def test_a_wrong_process_is_refused_at_registration_and_cannot_send_requests(text: str) -> None:
    with FakeRuntime(policy=f'["10-guard"]\n{text}\nrequired = true\n') as runtime:
        raw = RawPlugin(runtime, "guard")
        raw.sock.sendall(register("guard", "10"))
        raw.wait_for(b"10-guard")
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(), stream_id=3))
        raw.wait_for(b"registered and configured")
        assert "10-guard" not in {row.plugin for row in runtime.plugins}
        with pytest.raises(NriError, match="plugin 10-guard: required"):
            runtime.run_pod_sandbox()  # an imposter does not stand in for it
        raw.close()


def test_a_wrong_process_does_not_replace_a_disconnected_plugin() -> None:
    with FakeRuntime(policy=f'["10-guard"]\nuid = {os.geteuid()}\n') as runtime:
        runtime.add(Guard(), idx="10").start_container()
        runtime.disconnect("10-guard")
        assert runtime.health("10-guard").state == "gone"
        runtime.add(Guard(), idx="10").start_container()


def test_strict_refuses_names_without_a_table() -> None:
    policy = '[defaults]\nstrict = true\n["10-guard"]\n'
    with FakeRuntime(policy=policy) as runtime:
        runtime.add(Guard(), idx="10")
        for index in ("11", "99"):
            with pytest.raises(RegistrationError, match=f"plugin {index}-guard has no policy"):
                runtime.add(Guard(), idx=index)
        raw = RawPlugin(runtime, "10-guard", "99")
        raw.sock.sendall(register("10-guard", "99"))
        raw.wait_for(b"plugin 99-10-guard has no policy")
        raw.close()


def test_a_name_without_a_table_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f'[defaults]\nuid = {WRONG}\nallow.fields = []\n["10-guard"]\nuid = 0\n')
    policies = Policies(str(path))
    named, unknown = policies.for_plugin("10", "guard"), policies.for_plugin("10", "guarded")
    assert (named.uid, unknown.uid) == ((0,), (WRONG,))
    assert unknown.allow is not None
    assert not unknown.allow.paths


@pytest.mark.parametrize(
    "text", [f'["10-guard"]\nuid = {WRONG}\n', "[defaults]\nstrict = true\n", "[defaults]\nlaunched = true\n"]
)
def test_a_changed_policy_disconnects_a_process_that_became_wrong(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    with FakeRuntime(policy_path=str(path)) as runtime:
        runtime.add(Guard(), idx="10")
        path.write_text(text)
        wait_for(lambda: runtime.health("10-guard").state == "gone", "it is cut off")
        assert "10-guard" in runtime.health("10-guard").last_error


def test_a_plugin_that_may_not_be_launched_is_not_started(tmp_path: Path) -> None:
    folder, proof = tmp_path / "plugins", tmp_path / "started"
    folder.mkdir()
    program = folder / "10-guard"
    program.write_text(f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o700)
    policy = '["10-guard"]\nlaunched = false\nrestart = "never"\n'
    with FakeRuntime(policy=policy, plugin_path=str(folder)) as runtime:
        assert "must connect by itself" in runtime.health("10-guard").last_words
    assert not proof.exists()


def test_refused_names_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with FakeRuntime(policy="[defaults]\nstrict = true\n") as runtime:
        raw = RawPlugin(runtime)
        with caplog.at_level(logging.WARNING, "nri.adaptation"):
            for number in range(200):
                raw.sock.sendall(register(f"guess{number}", "10", stream_id=1 + 2 * number))
            raw.wait_for(b"10-guess199")
        lines = [record for record in caplog.records if "registration refused" in record.getMessage()]
        assert 1 <= len(lines) <= MAX_LINES
        raw.close()


def test_forbidden_updates_of_synchronize_are_refused_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Rebalances(nri.Plugin):
        name = "guard"

        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> list[nri.Update]:
            return [nri.Update(container.id).set_cpu_shares(5) for container in containers]

    with FakeRuntime(policy='["10-guard"]\nallow.fields = ["Env"]\n') as runtime:
        runtime.create_container()
        with caplog.at_level(logging.DEBUG, "nri.adaptation"):
            runtime.add(Rebalances(), idx="10")
            wait_for(lambda: "CPUShares" in runtime.health("10-guard").last_error, "the report of the breach")
        assert runtime.updates == []
        assert runtime.health("10-guard").state == "active"
    (line,) = [record for record in caplog.records if "CPUShares" in record.getMessage()]
    assert "its reply to Synchronize is refused" in line.getMessage()
    assert line.levelno == logging.WARNING
    assert line.exc_info is None
