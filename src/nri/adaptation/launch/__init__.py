"""The plugins that are installed on this machine: found, started, watched, started again, ended.

Reading order: `installed` (all of them), `supervisor` (one of them), `start` (one run: a `process` with its
`last_words`, or `wasm` in this one), `discovery`, `trusted` and `wasm_file` (which files are plugins, and of which
kind).
"""

from nri.adaptation.launch.discovery import Found, config_text
from nri.adaptation.launch.last_words import LastWords
from nri.adaptation.launch.process import Process
from nri.adaptation.launch.wasm_file import MAGIC

__all__ = ["MAGIC", "Found", "LastWords", "Process", "config_text"]
