"""The status of an undecodable request."""

from nri.stub.support.decode_errors import Unreadable, unreadable


def test_the_status_is_internal_with_the_decoders_text() -> None:
    error = unreadable(ValueError("Error parsing message"))
    assert isinstance(error, Unreadable)
    assert (error.code, error.message) == (
        13,
        "ttrpc: error unmarshalling payload: Error parsing message",
    )
