"""The plugin's configuration: the runtime's text, then `--config FILE`, over the defaults of its `Config` class.

`nri.config` does the reading and is imported only when there is something to read.
"""

from __future__ import annotations

from nri.stub.support.before import defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.stub.base import PluginBase

__all__ = ["apply"]


def apply(plugin: PluginBase, text: str, file: str | None = None) -> None:
    """Set `plugin.config`. Without a `Config` class it is the runtime's text, or the file's, as it is.

    Raises:
        ConfigError: a source cannot be read, or does not fit; names source, key and value.
    """
    config_class = plugin.Config
    if config_class is None and file is None:
        plugin.config = text
        return
    if not text.strip() and file is None and config_class is not None:
        plugin.config = defaults(config_class)
        return
    from nri.config import Source, read, read_file

    sources = []
    if text.strip():
        sources.append(Source("the runtime's configuration", text, plugin.config_format))
    if file is not None:
        sources.append(read_file(file, None if plugin.config_format == "auto" else plugin.config_format))
    if config_class is None:
        plugin.config = sources[-1].text
        return
    plugin.config = read(config_class, sources)
