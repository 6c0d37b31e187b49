"""`Plugin`: the class that every plugin inherits from, with its start as a program.

One job: the documented whole of a plugin for the people who write one. The events and all else in `self` come from
`nri.stub.base`; how a program starts is in `nri.stub.program.start`, which is loaded by `main()` only.
"""

from __future__ import annotations

from nri.stub.base import PluginBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Plugin"]


class Plugin(PluginBase):
    """A plugin: override the methods of the events that it wants.

    Run it with `main()`, with `nri run FILE`, or pre-installed.

    Class attributes:
        name: its name; default: the class name in kebab-case. The command line and the environment come first.
        failure_policy: what the runtime should do when this plugin is late or gone (`nri.FailurePolicy`), or None.
        mirror: keep `self.state` true: all pods and containers. Subscribes to what that needs.
        config_format: "auto", "json", "yaml" or "toml": how the runtime's and the file's configuration is written.
        log_file: where to log instead of stderr (or, pre-installed, syslog).
        Config: a plain class with annotations; it is read and checked before `configure`, and then is `self.config`.
        flags: its own flags: name -> (field of `Config`, name of the value in the help, help). Without a name for its
            value a flag is a switch. Flags come before all other configuration.
        annotations: the annotations of pods that it reads: key -> what its value does. For `nri plugins`.
        sets: all that it may set, such as ``("env.*", "linux.resources.cpu")``, for `nri predict`; None if it does not
            say. An answer with more is an error in `nri.testing` and `nri try`, and a warning on a node.

    Handlers run one at a time, in the order of the events, in the plugin's one loop. They may be `async def`.
    """

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Run this plugin as a program: read the flags, serve until stopped, exit with a documented code."""
        import sys

        try:
            from nri.stub.program.start import main

            code = main(cls, sys.argv[1:] if argv is None else list(argv))
        except KeyboardInterrupt:  # before the program listens to signals
            code = 130
        sys.exit(code)
