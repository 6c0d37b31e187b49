"""The parts that lives are made of, each knowing only its own: undo, places, programs, cgroups, files, namespaces.

Rules: nothing here knows other pods, records of containers, or plugins. Next: :mod:`nri.engine.lifecycle.parts.undo`.
"""
