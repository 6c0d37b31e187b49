"""Hook servers of Koordinator's protocol behind the proxy: who is registered, who is asked, what an answer changes.

`RegisteredServers` is all that the proxy needs of it. Next: `nri.proxy.hook_servers.servers`.
"""

from nri.proxy.hook_servers.registrations import FOLDER
from nri.proxy.hook_servers.servers import HookServersFailed, RegisteredServers

__all__ = ["FOLDER", "HookServersFailed", "RegisteredServers"]
