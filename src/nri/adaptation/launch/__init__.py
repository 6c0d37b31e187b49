"""The installed plugins of this machine: discover, start, watch, restart and stop them.

Reading order: `installed` (all plugins), `supervisor` (one plugin), `start` (one run: a `process` with its
`stderr_tail`, or `wasm` inside the runtime), `discovery`, `trusted` and `wasm_file` (which files are plugins, and of
which kind).
"""

from nri.adaptation.launch.discovery import PluginFile, config_text
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.stderr_tail import StderrTail
from nri.adaptation.launch.wasm_file import MAGIC

__all__ = ["MAGIC", "PluginFile", "Process", "StderrTail", "config_text"]
