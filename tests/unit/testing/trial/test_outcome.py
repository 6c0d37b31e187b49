"""The outcome of a trial: its exit code and its JSON form."""

from __future__ import annotations

from nri.adaptation.audit.shadow import ShadowReport
from nri.errors import PluginError, Reject, RpcError
from nri.testing.trial.outcome import MissingAnswer, Outcome, PodResult, Result


def test_a_refusal_takes_precedence_over_a_failure() -> None:
    outcome, result = Outcome([]), Result("id", "app")
    failure, refusal = PluginError("10-a", "broken"), PluginError("10-a", "no")
    refusal.__cause__ = RpcError(7, "no")
    outcome.record_error(result, failure)
    assert (result.failure, outcome.failed, outcome.refused) == (str(failure), True, False)
    for error in (refusal, Reject("no"), failure):
        outcome.record_error(result, error)
        assert outcome.refused


def test_only_a_missing_answer_is_a_failure() -> None:
    outcome, result = Outcome([]), Result("id", "app")
    outcome.record_misses(result, [])
    assert (outcome.failed, result.unchanged) == (False, True)
    outcome.record_misses(result, [MissingAnswer("10-a", "CreateContainer", "no answer")])
    assert (outcome.failed, result.unchanged) == (True, False)


def test_an_outcome_can_be_written_as_json() -> None:
    shadow = ShadowReport("20-b", "CreateContainer", "shop/web", "app", [], [], [], "broken")
    result = Result(
        "id", "app", [], [("other", "too big")], [MissingAnswer("10-a", "E", "late")], [shadow], [("10-a", "E")], "no"
    )
    outcome = Outcome(["10-a"], [PodResult(Result("p", "shop/web"), [result])])
    document = outcome.to_json()
    (pod,) = document["pods"]
    (container,) = pod.pop("containers")
    assert document["plugins"] == ["10-a"]
    assert pod == {"pod": "shop/web", "unanswered": [], "shadows": [], "left_out": [], "failed": ""}
    assert container == {
        "id": "id",
        "name": "app",
        "steps": [],
        "evictions": [{"container": "other", "reason": "too big"}],
        "unanswered": [{"plugin": "10-a", "event": "E", "reason": "late"}],
        "shadows": [shadow.to_json()],
        "left_out": [{"plugin": "10-a", "event": "E"}],
        "failed": "no",
    }
