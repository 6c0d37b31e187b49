"""The dictionary is that of the draft: its length and its check sum are what every peer has."""

import zlib

from nri.engine.streaming.spdy.dictionary import DICTIONARY


def test_the_dictionary_is_that_of_the_draft() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2
