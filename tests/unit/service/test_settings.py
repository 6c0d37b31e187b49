"""The address of health and metrics in the settings of every program."""

import pytest

from nri.service.settings import HttpSettings


@pytest.mark.parametrize("address", ["", "127.0.0.1:0", "[::1]:9316", "localhost:65535"])
def test_an_address_is_host_and_port_or_empty(address: str) -> None:
    assert HttpSettings(address).address == address


@pytest.mark.parametrize("address", ["127.0.0.1", ":80", "a:65536", "a:-1", "a:b", f"a:{'9' * 5000}"])
def test_an_invalid_address_is_an_error_with_an_example(address: str) -> None:
    with pytest.raises(ValueError, match=r'is not HOST:PORT, for example "127.0.0.1:9316"'):
        HttpSettings(address)
