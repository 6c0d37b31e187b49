"""The plugins that are installed on this machine: found, started, watched, started again, ended.

Reading order: `installed` (all of them), `supervisor` (one of them), `process` (one run), `discovery` and `trusted`
(which files are plugins).
"""
