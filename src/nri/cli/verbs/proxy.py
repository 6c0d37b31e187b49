"""`nri proxy`: NRI for a container runtime that lacks it, as a CRI proxy in front of it, in the foreground.

Next: `nri.proxy.program` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from nri.cli.settings import Settings
from nri.cli.support.recording import record_options, recorded
from nri.cli.support.settings_options import Flag, SettingsOptions
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.config.settings import SettingsLoader
    from nri.proxy.settings import ProxySettings

EXAMPLES = [
    "nri proxy --runtime-endpoint /run/containerd/containerd.sock",
    "kubelet --container-runtime-endpoint=unix:///run/nri-proxy/proxy.sock ...",
    "sudo nri proxy --listen /run/p.sock --plugin-path /opt/nri/plugins --policy /etc/nri/policy.toml",
    "sudo nri proxy --hook-servers /etc/runtime/hookserver.d    # koordlet, in mode proxy",
]


def _loader() -> SettingsLoader[ProxySettings]:
    from nri.service.daemon import needs_extra

    try:
        from nri.proxy.settings import PROXY_SETTINGS
    except ModuleNotFoundError as error:
        needs_extra("the proxy", error, "engine")
    return PROXY_SETTINGS


def _hook_servers(folder: str) -> Mapping[str, Any]:
    return {"hook_servers.enable": True, "hook_servers.folder": folder}


PROXY_OPTIONS = SettingsOptions(
    _loader,
    "/etc/nri/proxy.toml",
    "nri.socket_path",
    "nri.plugin_request_timeout=5s",
    (
        Flag("--listen", "listen", "PATH", "The socket where the kubelet connects: /run/nri-proxy/proxy.sock."),
        Flag(
            "--runtime-endpoint",
            "runtime_endpoint",
            "PATH",
            "The runtime's CRI socket. Default: the first that exists.",
        ),
        Flag("--plugin-path", "nri.plugin_path", "DIR", "The folder of the plugins that the proxy launches."),
        Flag("--plugin-config-path", "nri.plugin_config_path", "DIR", "The folder of their configuration."),
        Flag(
            "--policy",
            "nri.policy_path",
            "FILE",
            "The policy file: what plugins may do, what their failures mean.",
        ),
        Flag("--metrics", "http.address", "HOST:PORT", "Serve /metrics, /healthz and /readyz on this address."),
        Flag("--state", "state", "DIR", "The folder of records that the proxy keeps for its next start."),
        Flag(
            "--hook-servers",
            _hook_servers,
            "DIR",
            "Also ask the hook servers of Koordinator registered in DIR.",
        ),
    ),
)


@click.command(cls=Verb, examples=EXAMPLES)
@PROXY_OPTIONS
@record_options
@click.pass_obj
def command(settings: Settings, /, **options: Any) -> int:
    """Run a CRI proxy that gives NRI plugins the events of a runtime that has no NRI.

    The kubelet connects to it, and it passes every call on to the runtime. Calls about pods and containers are shown
    to plugins, and their answers are put into the request, as far as the CRI can express them. Plugins connect at
    --socket-path. Containers run on when the proxy stops, and its next start knows them.

    The exit code is 0 after SIGTERM, 130 after Ctrl-C, 1 if it cannot start, 2 for mistakes in its settings.
    """
    from nri.cli.support.logs import log_to
    from nri.service.daemon import needs_extra

    loaded = PROXY_OPTIONS.load(settings, options)
    nri = loaded.settings.nri
    log_to(settings, "info")
    try:
        from nri.proxy.program import serve
    except ModuleNotFoundError as error:
        needs_extra("the proxy", error, "engine")
    with recorded(options, "nri proxy", policy_path=nri.policy_path, compat=nri.compat) as reporters:
        return serve(loaded, reporters)
