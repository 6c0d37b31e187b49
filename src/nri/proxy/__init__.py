"""NRI for runtimes that lack it: a proxy between the kubelet and a CRI runtime that gives plugins their events.

    with Proxy(ProxySettings(runtime_endpoint="/run/containerd/containerd.sock")) as proxy:
        ...

Needs the extra `cri`.
"""

from nri.proxy.hooks import HOOKED, HookServers, Subject
from nri.proxy.proxy import Proxy
from nri.proxy.settings import HookServerSettings, PluginSettings, ProxySettings

__all__ = ["HOOKED", "HookServerSettings", "HookServers", "PluginSettings", "Proxy", "ProxySettings", "Subject"]
