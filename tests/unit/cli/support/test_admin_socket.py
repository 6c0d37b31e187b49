"""Questions to a runtime's admin socket: what goes wrong is said with the next step."""

from __future__ import annotations

import pytest

from nri.cli.errors import Failure
from nri.cli.settings import Settings
from nri.cli.support.admin_socket import ask_runtime
from nri.errors import RuntimeUnavailable


def test_a_socket_that_is_closed_to_us_says_so_and_nothing_of_other_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str, *_: object) -> None:
        raise RuntimeUnavailable(path, "Permission denied")

    monkeypatch.setattr("nri.adaptation.admin.ask", closed)
    with pytest.raises(Failure) as caught:
        ask_runtime(Settings(), "/run/admin.sock", "Plugins", {})
    assert caught.value.code == 3
    assert caught.value.message == "cannot connect to /run/admin.sock: permission denied. Run it as root"
