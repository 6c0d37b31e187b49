"""The builders of a plugin's answers: each has a message, setters with checks, and readers.

`adjustment` is for a container that is being created, `update` for an existing one, `eviction` requests its stop,
`failure` is the policy that a plugin declares. `resources` has the setters that two of these share, `view` the readers,
also for received messages; `builder` is the base class, `checks` has the checks of setters, `answers` the types of
handlers' results.
"""
