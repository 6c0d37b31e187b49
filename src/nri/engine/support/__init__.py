"""The base of all rooms of the engine: its errors, programs with deadlines, files written whole, calls to the kernel.

Knows nothing of pods, containers or images.
"""
