"""Inputs that can be made of any size, and the work that they cause: for `bench.linear` and the tests of bounds.

A case makes its input of a size and returns what is measured. Everything that a plugin, a pod's annotations or a file
can make big has one.
"""
