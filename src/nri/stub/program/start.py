"""Start a plugin as a program, for `Plugin.main()` and `nri run`.

It imports as little as possible; tests/unit/stub/test_imports.py lists the modules that a start may load.
"""

from __future__ import annotations

import os
import sys

from nri.api import naming
from nri.errors import ConfigError
from nri.stub.program.options import Options, help_text, parse
from nri.stub.program.process import Program, make_log_if_due
from nri.stub.session import settings
from nri.stub.support import log_destination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.program.plugin_group import PluginGroup


def main(plugin_class: type[PluginBase], arguments: Sequence[str]) -> int:
    """Parse the flags and run. Returns the exit code. Wrong usage is reported in one line on stderr."""
    program = sys.argv[0]
    try:
        options = parse(arguments, os.environ, program, plugin_class.name, plugin_class.flags)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if options.help or options.version:
        print_info(plugin_class, options)
        return 0
    return run(plugin_class, options)


def print_info(plugin_class: type[PluginBase], options: Options) -> None:
    """Print the help or the versions, as the options request."""
    if options.version and not options.help:
        sys.stdout.write(_versions(plugin_class))
        return
    spec = sys.modules["__main__"].__spec__ if plugin_class.__module__ == "__main__" else None
    module = spec.name if spec is not None else ""  # started with -m
    if not module and plugin_class.__module__.startswith("nri.plugins."):
        module = plugin_class.__module__
    summary, indexed = plugin_class.__doc__ or "", plugin_class._takes_index()
    sys.stdout.write(help_text(sys.argv[0], summary, plugin_class.flags, module, indexed=indexed))


def run(plugin_class: type[PluginBase], options: Options, *, reporter: Reporter | None = None) -> int:
    """Create the plugin and run it until it is stopped. Returns the exit code. For `reporter` see `Program`."""
    return run_all([(plugin_class, options)], reporter=reporter)


def run_all(plugins: Sequence[tuple[type[PluginBase], Options]], *, reporter: Reporter | None = None) -> int:
    """Create plugins and run them in this process until they are stopped. Returns the exit code.

    The options of the first plugin apply to the process, for example to its log.
    """
    plugin_class, options = plugins[0]
    log_destination.choose(
        log_destination.Destination(
            options.log_level.upper(),
            options.log_format,
            options.log_file or (plugin_class.log_file if len(plugins) == 1 else None),
            use_syslog=options.socket_fd is not None,
        )
    )
    make_log_if_due()
    endpoints = None
    try:
        if not (options.health_addr or options.metrics_addr):
            return _program(plugins, reporter).run()
        from nri.stub.program.endpoints import Endpoints, counted

        registry, counting = counted(reporter) if options.metrics_addr else (None, reporter)
        program = _program(plugins, counting)
        endpoints = Endpoints(program.health, options.health_addr, options.metrics_addr, registry, program.measurements)
        return program.run()
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    finally:
        if endpoints is not None:
            endpoints.close()
        log_destination.take()


def _program(plugins: Sequence[tuple[type[PluginBase], Options]], reporter: Reporter | None) -> Program | PluginGroup:
    """Create the program of all connections. Raises ConfigError for invalid flags and names."""
    for plugin_class, options in plugins:
        settings.check_flags(plugin_class, options.own)
    connections = [connection for plugin_class, options in plugins for connection in plugin_class._connections(options)]
    if len(connections) == 1:
        return Program(*connections[0], reporter=reporter)
    if connections[0][1].socket_fd is not None:
        reason = "the runtime has launched this process for one plugin only"
        raise ConfigError("environment", naming.ENV_SOCKET, reason, "run it as a service, or in a DaemonSet")
    from nri.stub.program.plugin_group import PluginGroup

    return PluginGroup(connections, reporter=reporter)


def _versions(plugin_class: type[PluginBase]) -> str:
    from nri.api.naming import NRI_VERSION
    from nri.user_agent import package_version

    return f"{plugin_class.name}: nri {package_version()}, NRI {NRI_VERSION}, Python {sys.version.split()[0]}\n"
