"""NRI for runtimes that lack it: a proxy between the kubelet and a CRI runtime that gives plugins their events.

    with Proxy(ProxySettings(runtime_endpoint="/run/containerd/containerd.sock")) as proxy:
        ...

`Proxy` is the way in. Rooms, each of which uses those after it: `events` (the calls at which plugins are asked),
`adjust` (what of an adjustment the CRI can say) and `state` (pods and containers, over restarts), `passing` (calls
passed on byte by byte). `hooks` is the seam for Koordinator's hook servers. Needs the extra `cri`.
"""

from nri.proxy.hooks import HOOKED, HookServers, Subject
from nri.proxy.proxy import Proxy
from nri.proxy.settings import HookServerSettings, PluginSettings, ProxySettings

__all__ = ["HOOKED", "HookServerSettings", "HookServers", "PluginSettings", "Proxy", "ProxySettings", "Subject"]
