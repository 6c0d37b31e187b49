"""Hook servers of Koordinator's protocol behind the proxy."""

from nri.proxy.hook_servers.registrations import FOLDER
from nri.proxy.hook_servers.servers import HookServersFailed, RegisteredServers

__all__ = ["FOLDER", "HookServersFailed", "RegisteredServers"]
