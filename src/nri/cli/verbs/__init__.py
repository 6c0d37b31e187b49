"""The verbs of the command, one file each: options and help, a call, and the printing of its outcome.

Rules: nothing heavy is imported at a module's top, so that help and completion stay fast; the work is done in
`nri.cli.doctor` and the layers below.
"""
