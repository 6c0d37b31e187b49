"""A trial of plugins on a pod: which plugins take part, and how it ends. What is shown: see verbs/test_try_."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.cli.errors import FAILED, REJECTED, USAGE, Failure
from nri.cli.support.trial import Contestant, Outcome, Result, contestants, run
from nri.errors import PluginError, Reject, RpcError
from nri.kube.manifest import read_manifest

PLUGIN = """
import nri
class Env(nri.Plugin):
    def create_container(self, pod, container):
        return nri.Adjustment().add_env("A", self.config)
"""


def test_the_index_is_the_one_given_or_in_the_files_name_or_the_place() -> None:
    found = contestants(["30=a.py", "70-late.py", "b.py:Pin"], [])
    assert [(one.index, one.target) for one in found] == [("30", "a.py"), ("70", "70-late.py"), ("30", "b.py:Pin")]


def test_a_configuration_goes_to_the_plugin_of_its_index(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("x: 1\n")
    found = contestants(["a.py", "b.py"], [f"20={tmp_path}/c.yaml"])
    assert [one.config for one in found] == ["", "x: 1\n"]


@pytest.mark.parametrize(
    ("config", "reason"), [("c.yaml", "expected the index of a plugin"), ("99={}", "no plugin has this index")]
)
def test_a_configuration_without_a_plugin_is_wrong_usage(tmp_path: Path, config: str, reason: str) -> None:
    (tmp_path / "c.yaml").touch()
    with pytest.raises(Failure, match=reason) as caught:
        contestants(["a.py"], [config.format(tmp_path / "c.yaml")])
    assert caught.value.code == USAGE


def test_a_program_is_told_from_python(tmp_path: Path) -> None:
    program, script = tmp_path / "10-a", tmp_path / "a.py"
    for path in (program, script):
        path.touch(mode=0o755)
    assert Contestant("10", str(program)).is_program
    assert not Contestant("10", str(script)).is_program
    assert not Contestant("10", "module:Class").is_program


def test_a_refusal_weighs_more_than_a_failure() -> None:
    outcome = Outcome("shop/web", [])
    failure, refusal = PluginError("10-a", "broken"), PluginError("10-a", "no")
    refusal.__cause__ = RpcError(7, "no")
    assert outcome.refuse(failure) == str(failure)
    assert outcome.exit_code == FAILED
    for error in (refusal, Reject("no"), failure):
        outcome.refuse(error)
        assert outcome.exit_code == REJECTED


def test_an_outcome_is_a_table_of_json() -> None:
    outcome = Outcome("shop/web", ["10-a"], [Result("id", "app", evictions=[("other", "too big")], failed="no")])
    assert outcome.to_json() == {
        "pod": "shop/web",
        "plugins": ["10-a"],
        "failed": "",
        "containers": [
            {
                "id": "id",
                "name": "app",
                "steps": [],
                "evictions": [{"container": "other", "reason": "too big"}],
                "failed": "no",
            }
        ],
    }


def test_a_trial_tells_each_plugins_changes(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app}]}\n")
    (tmp_path / "trial_env.py").write_text(PLUGIN)
    workload = read_manifest(str(tmp_path / "pod.yaml"))
    outcome = run([Contestant("10", str(tmp_path / "trial_env.py"), "1")], workload, None, 5.0)
    assert (outcome.pod, outcome.plugins, outcome.exit_code) == ("default/web", ["10-env"], 0)
    assert [(step.plugin, step.change.key, step.change.after) for step in outcome.results[0].steps] == [
        ("10-env", "A", "1")
    ]
