"""The parts of every long-running command: word to systemd; health, metrics and explanations over HTTP.

Rules: plugins load it on demand only. Signals are in `nri.signals`, because each plugin needs them at its start. Next:
`nri.service.http`, the server; `nri.service.connections`, whom it serves at once; `nri.service.probes`, the paths that
all programs have; `nri.service.systemd`.
"""
