"""The builders of a plugin's answers. Each has a message, setters with checks, and readers.

`adjustment` is for a container that is being created, `update` for an existing container, `eviction` requests its stop,
`failure` is the policy that a plugin declares. `resources` has the setters that adjustments and updates share, `view`
the readers, which also read received messages; `builder` is the base class, `checks` has the checks of setters,
`answers` the types of handlers' results.
"""
