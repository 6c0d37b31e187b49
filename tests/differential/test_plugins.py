"""Our adaptation and the reference's give equal answers with the same Go plugins: a short run of `plugins`."""

import dataclasses

import pytest

from nri.adaptation import Rules
from tests.differential.plugins import Result, run
from tests.support.sides import MODES, Mode

pytestmark = pytest.mark.timeout(300)


def assert_same_outcomes(result: Result, requests: int) -> None:
    """Assert that nothing differs, and that enough requests were sent and failed for a difference to show."""
    assert not result.findings, "\n".join((f"{len(result.findings)} findings:", *map(str, result.findings[:3])))
    assert result.requests == requests
    assert requests / 50 < result.failures < requests / 3, "plugins refuse some, and let most pass"


@pytest.mark.parametrize("mode", MODES)
def test_sequential_requests_have_the_outcome_of_the_reference(mode: Mode) -> None:
    assert_same_outcomes(run(mode, requests=400, threads=1, seed=5, late=1), 400)


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_requests_have_the_outcome_of_the_reference(mode: Mode) -> None:
    assert_same_outcomes(run(mode, requests=800, threads=8, seed=6), 800)


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("errors_name_plugin", "error"),
        ("rdt_only_when_asked", "reply"),
        ("later_plugins_see_all", "shown to slow at CreateContainer"),
        ("validators_see_answerers", "shown to validator at ValidateContainerAdjustment"),
    ],
)
def test_a_changed_rule_is_detected(rule: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the test itself: the run detects a changed rule of reference mode."""
    monkeypatch.setattr(Rules, "REFERENCE", dataclasses.replace(Rules.REFERENCE, **{rule: True}))
    result = run("reference", requests=200, threads=4, seed=7)
    assert part in {finding.part for finding in result.findings}
