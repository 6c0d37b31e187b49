"""What all rooms of the engine stand on: its errors, programs with deadlines, files written whole, calls to the kernel.

Rules: knows nothing of pods, containers or images.
Next: :mod:`nri.engine.support.errors`.
"""
