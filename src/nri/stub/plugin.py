"""`Plugin`: the class that every plugin inherits from."""

from __future__ import annotations

from nri.stub.base import PluginBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Plugin(PluginBase):
    """A plugin. Override the methods of the events that it handles.

    Run it with `main()`, with `nri run FILE`, or let a runtime launch it.

    Class attributes:
        name: the plugin's name; default: the class name in kebab-case. The command line and the environment override
            it.
        failure_policy: what the runtime should do if this plugin fails (`nri.FailurePolicy`), or None.
        mirror: keep all pods and containers in `self.state`. Subscribes to the events that this requires.
        config_format: "auto", "json", "yaml" or "toml": the format of the runtime's and the file's configuration.
        log_file: where to log instead of stderr, or of syslog if a runtime launched the plugin.
        Config: a class with annotations. Its instance `self.config` is read and checked before `configure`.
        flags: additional flags: the flag's name -> (field of `Config`, name of the value in the help, help). Without a
            name for its value a flag is a switch. Flags override all other configuration.
        annotations: the pod annotations that the plugin reads: key -> meaning of the value. For `nri plugins`.
        sets: all fields that the plugin may set, for example ``("env.*", "linux.resources.cpu")``, for `nri predict`;
            None if
            not declared. Setting other fields is an error in `nri.testing` and `nri try`, and a warning on a node.

    Handlers run one at a time, in the order of the events, in one thread. They may be `async def`.
    """

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Run this plugin as a program: read the flags, serve until stopped, exit with a documented code."""
        import sys

        try:
            from nri.stub.program.start import main

            code = main(cls, sys.argv[1:] if argv is None else list(argv))
        except KeyboardInterrupt:  # before the program handles signals
            code = 130
        sys.exit(code)
