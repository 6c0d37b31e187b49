"""What the trial's observer keeps, and what it leaves to others."""

from __future__ import annotations

from nri.adaptation.audit.shadow import ShadowReport
from nri.cli.support.trial.watching import Watching
from nri.errors import DeadlineExceeded, RpcError


def test_silence_is_kept_and_an_error_status_is_not() -> None:
    watching, late = Watching(), DeadlineExceeded()
    watching.record_plugin_invocation("10-a", "CreateContainer", None)
    watching.record_plugin_invocation("10-a", "CreateContainer", RpcError(2, "no"))
    watching.record_plugin_invocation("10-a", "StartContainer", late)
    assert watching.take().silent == [("10-a", "StartContainer", late)]
    assert watching.take() == ([], [], [])


def test_a_shadow_that_would_do_nothing_is_not_kept() -> None:
    watching = Watching()
    nothing = ShadowReport("10-a", "CreateContainer", "p", "c", [], [], [])
    for report in (nothing, nothing._replace(failed="broken")):
        watching.record_shadow(report)
    assert [report.failed for report in watching.take().shadows] == ["broken"]


def test_requests_for_absent_containers_are_kept() -> None:
    watching = Watching()
    watching.record_left_out("10-a", "StopContainer")
    assert watching.take().left_out == [("10-a", "StopContainer")]
