"""The network of pods: its configuration, and the CNI plugins that this one needs.

Next: :mod:`nri.engine.check.kernel`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from nri.engine.check.rows import Check
from nri.engine.config import EngineConfig
from nri.engine.network import Network, find_network

__all__ = ["networks"]

_SAMPLE = "docs/howto/engine.md has one"
#: Plugins that call iptables.
_FILTERING = {"portmap", "firewall"}


def networks(config: EngineConfig) -> Iterator[Check]:
    """The rows of network configuration, CNI plugins and iptables."""
    folder = config.network.config_dir
    network, complaints = find_network(folder)
    if network is None:
        found = "; ".join(complaints)
        step = f"put a .conflist into {folder} ({_SAMPLE}); pods on the node's network need none"
        yield Check("pod network", "missing", found, step)
        return
    state = Check("pod network", "ok", f'"{network.name}", {network.source}')
    if complaints:
        state = Check(
            state.what, "limited", f"{state.found}; {'; '.join(complaints)}", "mend or remove the other files"
        )
    yield state
    yield _plugins(config, network)
    if _filters(network) and not shutil.which("iptables"):
        yield Check("iptables", "missing", f'no program, and the network "{network.name}" needs it',
                    "apt-get install iptables")  # fmt: skip


def _plugins(config: EngineConfig, network: Network) -> Check:
    """The row of the programs that the network names."""
    folders = config.network.plugin_dirs
    names = [row["type"] for row in network.plugins]
    names += [row["ipam"]["type"] for row in network.plugins if "type" in (row.get("ipam") or {})]
    missing = [name for name in dict.fromkeys(names) if not any((folder / name).is_file() for folder in folders)]
    places = ", ".join(map(str, folders))
    if missing:
        step = "apt-get install containernetworking-plugins, or name their folder in network.plugin_dirs"
        return Check("CNI plugins", "missing", f"{', '.join(missing)} in none of {places}", step)
    used = sorted({str(folder) for folder in folders for name in names if (folder / name).is_file()})
    return Check("CNI plugins", "ok", f"{', '.join(dict.fromkeys(names))} in {', '.join(used)}")


def _filters(network: Network) -> bool:
    """Whether a plugin of the network calls iptables."""
    return any(row["type"] in _FILTERING or row.get("ipMasq") for row in network.plugins)
