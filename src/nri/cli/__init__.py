"""The `nri` command: one file per verb, each loading its heavy parts only when it runs.

`main` has the table of verbs; `verb` what all verbs share (global options, help); `output` and `errors` how they speak.
"""
