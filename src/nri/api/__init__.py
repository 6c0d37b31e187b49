"""The vocabulary of NRI: generated messages and pure functions on them; no input or output.

This module imports nothing, so that a plugin pays only for the parts it uses. Next: `nri.api.messages` has the
messages, `nri.api.events` the events, `nri.api.naming` names, paths, timeouts and versions; `nri.api.builders` is the
room of `Adjustment`, `Update` and the other builders of answers.
"""
