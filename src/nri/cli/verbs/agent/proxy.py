"""`nri proxy`: NRI for a container runtime that lacks it, as a CRI proxy in front of it, in the foreground.

Next: `nri.cli.support.agent.proxy` runs it.
"""

from __future__ import annotations

from typing import Any

import click

from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri proxy --runtime-endpoint /run/containerd/containerd.sock",
    "kubelet --container-runtime-endpoint=unix:///run/nri-proxy/proxy.sock ...",
    "sudo nri proxy --listen /run/p.sock --plugin-path /opt/nri/plugins --policy /etc/nri/policy.toml",
    "sudo nri proxy --hook-servers /etc/runtime/hookserver.d    # koordlet, in mode proxy",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option(
    "--config",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Read this file instead of /etc/nri/proxy.toml; may be given several times, later ones win.",
)
@click.option("--listen", metavar="PATH", help="Where the kubelet connects: /run/nri-proxy/proxy.sock.")
@click.option("--runtime-endpoint", metavar="PATH", help="The runtime's CRI socket; one of the usual ones by default.")
@click.option("--plugin-path", metavar="DIR", help="The plugins that the proxy launches.")
@click.option("--plugin-config-path", metavar="DIR", help="Their configuration.")
@click.option("--policy", metavar="FILE", help="What plugins may do, and what their failures mean.")
@click.option("--state", metavar="DIR", help="What the proxy keeps over its own restarts.")
@click.option("--hook-servers", metavar="DIR", help="Ask Koordinator's hook servers, too, that are registered here.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Set any key of the file.")
@click.pass_obj
def command(settings: Settings, /, **options: Any) -> int:
    """Run a CRI proxy that gives NRI plugins the events of a runtime that has no NRI.

    It stands between kubelet and runtime: every call goes through it, those of pods and containers are shown to
    plugins, and what they answer is put into the request as far as the CRI can say it. --socket-path is where plugins
    connect. Containers run on when it ends, and its next start knows them.

    Exits with 0 after SIGTERM, with 130 after Ctrl-C, with 1 if it cannot start, with 2 for mistakes in its settings.
    """
    from nri.cli.support.agent.proxy import load, run

    config, files = load(settings, options)
    return run(settings, config, files)
