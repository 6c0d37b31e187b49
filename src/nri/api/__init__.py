"""The vocabulary of NRI: generated messages and pure functions on them; no input or output.

This module imports nothing, so that a plugin imports only the parts that it uses.
"""
