"""Outcomes in the form that client-go reads: JSON since v4, the text of failures before."""

import json

from nri.engine.streaming.channels import Status


def test_success_is_json_since_v4_and_no_message_before() -> None:
    assert json.loads(Status().json()) == {"metadata": {}, "status": "Success"} and Status().text() == b""


def test_an_exit_code_is_a_cause_of_the_status() -> None:
    document = json.loads(Status(7).json())
    assert (document["status"], document["reason"]) == ("Failure", "NonZeroExitCode")
    assert document["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}
    assert Status(7).text() == b"command terminated with non-zero exit code: exit status 7"


def test_an_error_is_a_message_of_bounded_length() -> None:
    document = json.loads(Status(error="no such\udcff" + "x" * 100_000).json())
    assert (document["reason"], document["code"]) == ("InternalError", 500)
    assert "no such\udcff" in document["message"] and len(document["message"]) < 20_000
    assert b"no such?" in Status(error="no such\udcff").text()
