"""`v010-adapter`: run plugins of the protocol 0.1.0 under the current NRI.

Such a plugin is a program that is started for each event, reads a request as JSON and writes a result. An error refuses
the start of a pod or container. An error at the stop is only logged.
"""

from __future__ import annotations

import nri
from nri.config import Duration
from nri.plugins.v010_adapter.chain import ChainError, ProgramChain
from nri.plugins.v010_adapter.request import CREATE, DELETE, of_container, of_pod
from nri.stub.program.options import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar


class V010Adapter(nri.Plugin):
    """Run plugins of the protocol 0.1.0 (programs that read JSON on stdin) at starts and stops."""

    name = "v010-adapter"
    flags: ClassVar[Mapping[str, Flag]] = {
        "conf": Flag("conf", "FILE", "the list of plugins (default /etc/nri/conf.json)"),
        "bin-dir": Flag("bin_dir", "DIR", "folder of plugins, searched after PATH (default /opt/nri/bin)"),
        "plugin-timeout": Flag("plugin_timeout", "TIME", "limit for one plugin (default 10s)"),
    }

    class Config:
        """Keys of the configuration.

        Attributes:
            output_limit: limit for one program's output in bytes.
        """

        conf: str = "/etc/nri/conf.json"
        bin_dir: str = "/opt/nri/bin"
        plugin_timeout: Duration = 10.0
        output_limit: int = 1 << 20

    config: Config

    def __init__(self) -> None:
        self._chain: ProgramChain | None = None

    def configure(self) -> None:
        config = self.config
        if config.plugin_timeout <= 0 or config.output_limit <= 0:
            raise nri.ConfigError("the configuration", "", "plugin_timeout and output_limit must be positive")
        chain = ProgramChain(
            config.conf,
            config.bin_dir,
            timeout_s=config.plugin_timeout,
            max_bytes=config.output_limit,
            tell=lambda line: self.log.warning("%s", line),
        )
        plugins = chain.load().plugins
        self._chain = chain
        self.log.info("%s: %s", config.conf, ", ".join(entry.type for entry in plugins) or "no plugins")

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._run_chain(of_pod(pod, CREATE))

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        self._run_stop_programs(of_pod(pod, DELETE))

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._run_chain(of_container(pod, container, CREATE))

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._run_stop_programs(of_container(pod, container, DELETE))

    def _run_stop_programs(self, request: dict[str, Any]) -> None:
        """Run the programs for a stop; errors are only logged."""
        try:
            self._run_chain(request)
        except nri.Reject as error:
            self.log.warning("%s", error)

    def _run_chain(self, request: dict[str, Any]) -> None:
        if self._chain is None:
            return
        try:
            results = self._chain.pass_through(request, self.time_left())
        except ChainError as error:
            raise nri.Reject(str(error)) from None
        if results:
            self.log.info("%s: %s", request["state"], ", ".join(result["plugin"] or "?" for result in results))


if __name__ == "__main__":
    V010Adapter.main()
