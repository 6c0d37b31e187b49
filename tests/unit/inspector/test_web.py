"""The page over HTTP: data only for clients with the token."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from nri.errors import NriError
from nri.inspector.filters import Filter
from nri.inspector.sources import Recording, Running, SourceUnavailable
from nri.inspector.web import Web


@pytest.fixture
def web(recording: Recording) -> Iterator[Web]:
    with Web(recording) as web:
        yield web


def get(
    web: Web, path: str, token: str | None = None, method: str = "GET", **more: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    """Status, content and headers of an answer."""
    host = web.url.removeprefix("http://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=10)
    bearer = web.token if token is None else token
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    connection.request(method, path, headers={**headers, **more})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if text[:1] in "{[" and text else text, answer.headers


def test_the_page_is_public_and_its_headers_restrict_scripts(web: Web) -> None:
    status, html, headers = get(web, "/", token="")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert html.startswith("<!doctype html>") and web.token not in html
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize("token", ["", "guess", "é"])
@pytest.mark.parametrize("path", ["/api/overview", "/api/events", "/api/container?id=c1", "/nothing"])
def test_without_the_token_there_is_no_data(web: Web, path: str, token: str) -> None:
    status, text, _ = get(web, path, token)
    assert status == 401
    assert text.startswith("the token is missing or wrong")


def test_all_requests_are_answered_by_the_source(web: Web, recording: Recording) -> None:
    assert get(web, "/api/overview")[1] == recording.overview()
    assert get(web, "/api/events?q=fight&most=1")[1]["rows"] == recording.events("", Filter("fight"), 1)["rows"]
    chips = "outcome=conflict&plugin=20-other&event=CreateContainer&min=0"
    assert [row["container"] for row in get(web, f"/api/events?{chips}")[1]["rows"]] == ["fight"]
    key = recording.events("", Filter("fight"))["rows"][0]["key"]
    assert get(web, f"/api/event?key={key}")[1]["container"] == "fight"
    assert get(web, "/api/containers")[1] == recording.containers()
    assert get(web, "/api/container?id=c1")[1] == recording.container("c1")
    assert len(get(web, "/api/events?most=x")[1]["rows"]) == len(recording.events()["rows"])


@pytest.mark.parametrize("path", ["/api/event?key=1-1", "/api/container?id=none", "/api/container"])
def test_an_unknown_event_or_container_is_null_so_that_the_console_of_the_browser_stays_empty(
    web: Web, path: str
) -> None:
    assert get(web, path)[:2] == (200, "null")


def test_an_unknown_path_is_not_found(web: Web) -> None:
    assert get(web, "/favicon.ico")[0] == 404


def test_methods_other_than_get_are_refused(web: Web) -> None:
    assert get(web, "/api/overview", method="POST")[0] == 405


def test_each_page_has_its_own_random_token(recording: Recording) -> None:
    with Web(recording) as one, Web(recording) as two:
        assert one.token != two.token and len(one.token) >= 32
        assert get(two, "/api/overview", one.token)[0] == 401


def test_a_runtime_without_an_answer_is_an_error_with_the_reason(recording: Recording) -> None:
    class Gone(Recording):
        def overview(self) -> dict[str, Any]:
            raise SourceUnavailable("cannot connect to /run/admin.sock")

    missing = object.__new__(Gone)
    with Web(missing) as web:
        assert get(web, "/api/overview")[:2] == (503, "cannot connect to /run/admin.sock\n")


def test_events_are_sent_as_server_sent_events(web: Web, recording: Recording) -> None:
    status, text, headers = get(web, "/api/follow")
    (event,) = text.split("\n\n")[:-1]
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert json.loads(event.removeprefix("data: "))["overview"] == recording.overview()
    assert get(web, "/api/follow", "guess")[0] == 401


def test_views_are_requested_by_name(running: Running) -> None:
    with Web(running) as web:
        assert get(web, "/api/view?name=agent&of=u1")[1] == {"pod": "u1"}
        assert get(web, "/api/view?name=agent&of=broken")[:2] == (503, "it does not answer\n")
        assert get(web, "/api/view?name=nothing")[1] == get(web, "/api/view")[1] == "null"


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:80", 200), ("evil.example", 403), ("", 403), ("[", 403)],
)
@pytest.mark.parametrize("path", ["/", "/api/overview"])
def test_a_foreign_host_name_is_refused(web: Web, path: str, host: str, status: int) -> None:
    assert get(web, path, Host=host)[0] == status


def test_the_name_of_the_listening_address_is_accepted(recording: Recording) -> None:
    with Web(recording, "localhost:0") as web:
        assert get(web, "/api/overview")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://{host}", "http://{host}.evil.example"])
def test_another_site_gets_no_data_with_the_token(web: Web, origin: str) -> None:
    host = web.url.removeprefix("http://").partition("/")[0]
    assert get(web, "/api/overview", Origin=origin.format(host=host))[:2] == (
        403,
        "requests from other sites are not allowed\n",
    )
    assert get(web, "/api/overview", Origin=f"http://{host}")[0] == 200


def test_many_wrong_tokens_do_not_block_the_right_one(web: Web) -> None:
    assert {get(web, "/api/overview", f"guess-{number}")[0] for number in range(50)} == {401}
    assert get(web, "/api/overview")[0] == 200


def test_an_unusable_address_is_an_error_with_its_name(web: Web, recording: Recording) -> None:
    with pytest.raises(NriError, match="nowhere"):
        Web(recording, "nowhere")
