"""Run the proxy as a program, until a signal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nri.proxy.hook_servers import RegisteredServers
from nri.proxy.proxy import Proxy
from nri.service.daemon import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.settings import LoadedSettings
    from nri.interfaces import Reporter
    from nri.metrics import Observer
    from nri.proxy.settings import ProxySettings


_log = logging.getLogger("nri.proxy")


def serve(loaded: LoadedSettings[ProxySettings], reporters: Sequence[Reporter] = ()) -> int:
    """Run the proxy until a signal. Returns the exit code. Raises NriError if it cannot start."""
    config = loaded.settings
    files = ", ".join(loaded.files) or "defaults and flags, because /etc/nri/proxy.toml does not exist"
    _log.info("settings: %s", files)

    def proxy(observer: Observer | None) -> Proxy:
        skip = (config.skip_label_key, config.skip_label_value)
        servers = RegisteredServers(config.hook_servers.folder, skip=skip) if config.hook_servers.enable else None
        return Proxy(config, hook_servers=servers, observer=observer, reporters=reporters)

    return run("the proxy", proxy, config.http.address, _log)
