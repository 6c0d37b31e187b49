"""Our adaptation and the reference's answer alike with the same plugins in Go attached: a short run of `plugins`."""

import dataclasses

import pytest

from nri.adaptation import Rules
from tests.differential.plugins import Result, run
from tests.support.sides import MODES, Mode

pytestmark = pytest.mark.timeout(300)


def held(result: Result, requests: int) -> None:
    """Nothing differs, and there was something to differ in."""
    assert not result.findings, "\n".join((f"{len(result.findings)} findings:", *map(str, result.findings[:3])))
    assert result.requests == requests
    assert requests / 50 < result.failures < requests / 3, "plugins refuse some, and let most pass"


@pytest.mark.parametrize("mode", MODES)
def test_requests_one_after_the_other_come_out_as_in_the_reference(mode: Mode) -> None:
    held(run(mode, requests=400, threads=1, seed=5, late=1), 400)


@pytest.mark.parametrize("mode", MODES)
def test_requests_from_many_threads_come_out_as_in_the_reference(mode: Mode) -> None:
    held(run(mode, requests=800, threads=8, seed=6), 800)


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("errors_name_plugin", "error"),
        ("rdt_only_when_asked", "reply"),
        ("later_plugins_see_all", "shown to slow at CreateContainer"),
        ("validators_see_answerers", "shown to validator at ValidateContainerAdjustment"),
    ],
)
def test_a_single_deviation_is_found(rule: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the test: were reference mode to do otherwise in one respect, the run would show it."""
    monkeypatch.setattr(Rules, "REFERENCE", dataclasses.replace(Rules.REFERENCE, **{rule: True}))
    result = run("reference", requests=200, threads=4, seed=7)
    assert part in {finding.part for finding in result.findings}
