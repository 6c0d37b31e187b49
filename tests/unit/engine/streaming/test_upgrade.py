"""A request is upgraded to a protocol that both sides have, or refused with the reason."""

from __future__ import annotations

import pytest

from nri.engine.streaming.http import Refused, Request, Upgrade, negotiate

SPDY = ("v4.channel.k8s.io", "channel.k8s.io")
WEBSOCKET = ("v5.channel.k8s.io", "v4.channel.k8s.io", "")
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def ask(method: str = "GET", **headers: str) -> Upgrade:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return negotiate(Request(method, "/", named), SPDY, WEBSOCKET)


def spdy(**headers: str) -> Upgrade:
    return ask("POST", connection="keep-alive, Upgrade", upgrade="SPDY/3.1", **headers)


def websocket(method: str = "GET", **headers: str) -> Upgrade:
    headers_ = {"sec_websocket_version": "13", "sec_websocket_key": KEY}
    return ask(method, connection="upgrade", upgrade="WebSocket", **{**headers_, **headers})


def test_spdy_uses_the_clients_first_supported_protocol() -> None:
    upgrade = spdy(x_stream_protocol_version="v9.channel.k8s.io, channel.k8s.io, v4.channel.k8s.io")
    assert (upgrade.websocket, upgrade.protocol) == (False, "channel.k8s.io")
    assert upgrade.answer.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: SPDY/3.1\r\n" in upgrade.answer
    assert b"\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n" in upgrade.answer


def test_a_websocket_handshake_follows_the_rfc() -> None:
    upgrade = websocket(sec_websocket_protocol="v9, v5.channel.k8s.io")
    assert (upgrade.websocket, upgrade.protocol) == (True, "v5.channel.k8s.io")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in upgrade.answer
    assert b"\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n" in upgrade.answer


def test_a_websocket_without_a_protocol_uses_the_oldest() -> None:
    upgrade = websocket()
    assert upgrade.protocol == "" and b"Sec-WebSocket-Protocol" not in upgrade.answer


def refusal(call: object, **headers: str) -> str:
    with pytest.raises(Refused) as refused:
        call(**headers)  # type: ignore[operator]
    return refused.value.answer.decode()


@pytest.mark.parametrize(
    ("call", "headers", "expected_text"),
    [
        (ask, {}, "400 Bad Request"),
        (ask, {"connection": "Upgrade"}, "request SPDY/3.1 or websocket"),
        (ask, {"upgrade": "websocket"}, "request SPDY/3.1 or websocket"),
        (ask, {"connection": "Upgrade", "upgrade": "h2c"}, "request SPDY/3.1 or websocket"),
        (spdy, {}, "X-Stream-Protocol-Version is missing"),
        (spdy, {"x_stream_protocol_version": "v9"}, "X-Accepted-Stream-Protocol-Versions: v4.channel.k8s.io"),
        (spdy, {"x_stream_protocol_version": "v9"}, "403 Forbidden"),
        (websocket, {"method": "POST"}, "405 Method Not Allowed"),
        (websocket, {"sec_websocket_version": "8"}, "426 Upgrade Required"),
        (websocket, {"sec_websocket_key": "AAAA"}, "not 16 bytes"),
        (websocket, {"sec_websocket_key": "\xff"}, "not 16 bytes"),
        (websocket, {"sec_websocket_protocol": "v9"}, "supported: v5.channel.k8s.io, v4.channel.k8s.io"),
    ],
)
def test_a_refusal_names_the_missing_header(call: object, headers: dict[str, str], expected_text: str) -> None:
    assert expected_text in refusal(call, **headers)


def test_a_reply_contains_no_text_of_the_client() -> None:
    assert "evil" not in refusal(websocket, sec_websocket_protocol="evil", sec_websocket_key=KEY)
    assert "evil" not in refusal(spdy, x_stream_protocol_version="evil")
