"""The status of a request that cannot be read."""

from nri.stub.support.decode_errors import Unreadable, unreadable


def test_it_is_an_internal_error_that_says_what_the_decoder_said() -> None:
    error = unreadable(ValueError("Error parsing message"))
    assert isinstance(error, Unreadable)
    assert (error.code, error.message) == (
        13,
        "ttrpc: error unmarshalling payload: Error parsing message",
    )
