"""`nri proxy`: run a CRI proxy that adds NRI to a container runtime without it."""

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
    from nri.service.daemon import raise_missing_extra

    try:
        from nri.proxy.settings import PROXY_SETTINGS
    except ModuleNotFoundError as error:
        raise_missing_extra("the proxy", error, "engine")
    return PROXY_SETTINGS


def _hook_servers(folder: str) -> Mapping[str, Any]:
    return {"hook_servers.enable": True, "hook_servers.folder": folder}


PROXY_OPTIONS = SettingsOptions(
    _loader,
    "/etc/nri/proxy.toml",
    "nri.socket_path",
    "nri.plugin_request_timeout=5s",
    (
        Flag("--listen", "listen", "PATH", "The socket for the kubelet. Default: /run/nri-proxy/proxy.sock."),
        Flag(
            "--runtime-endpoint",
            "runtime_endpoint",
            "PATH",
            "The runtime's CRI socket. Default: the first existing socket of a known runtime.",
        ),
        Flag("--plugin-path", "nri.plugin_path", "DIR", "The folder of plugins that the proxy launches."),
        Flag("--plugin-config-path", "nri.plugin_config_path", "DIR", "The folder of plugin configuration."),
        Flag(
            "--policy",
            "nri.policy_path",
            "FILE",
            "The policy file, with limits of plugins and the handling of their failures.",
        ),
        Flag("--metrics", "http.address", "HOST:PORT", "Serve /metrics, /healthz and /readyz on this address."),
        Flag("--state", "state", "DIR", "The folder where the proxy stores its state between runs."),
        Flag(
            "--hook-servers",
            _hook_servers,
            "DIR",
            "Also call the hook servers of Koordinator that are registered in DIR.",
        ),
    ),
)


@click.command(cls=Verb, examples=EXAMPLES)
@PROXY_OPTIONS
@record_options
@click.pass_obj
def command(settings: Settings, /, **options: Any) -> int:
    """Run a CRI proxy that adds NRI to a runtime without it.

    The kubelet connects to the proxy, which forwards every call to the runtime. It sends the events of pods and
    containers to plugins, and adds their changes to the request, as far as the CRI can express them. Plugins connect to
    --socket-path. Containers keep running when the proxy stops, and the proxy finds them again at its next start.

    The exit code is 0 after SIGTERM, 130 after Ctrl-C, 1 if the proxy cannot start, 2 for mistakes in its settings.
    """
    from nri.cli.support.logs import log_to
    from nri.service.daemon import raise_missing_extra

    loaded = PROXY_OPTIONS.load(settings, options)
    nri = loaded.settings.nri
    log_to(settings, "info")
    try:
        from nri.proxy.program import serve
    except ModuleNotFoundError as error:
        raise_missing_extra("the proxy", error, "engine")
    with recorded(options, "nri proxy", policy_path=nri.policy_path, compat=nri.compat) as reporters:
        return serve(loaded, reporters)
