"""The verbs of the command, one file each: options and help, a call into the library, and the output.

Modules import nothing heavy at their top, so that help and completion stay fast.
"""
