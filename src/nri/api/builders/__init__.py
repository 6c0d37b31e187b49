"""The builders of what a plugin answers: a message inside, setters that check, readers that tell what is set.

`adjustment` is for a container that is being created, `update` for one that exists, `eviction` asks to stop one,
`failure` is the policy that a plugin declares. `resources` holds the setters that two of these share, `view`
the readers, also for messages that were received; `builder` is the base of all, `checks` what every setter asks first.
`answers` has the types of what handlers return. Pure, and empty itself: a plugin pays only for the parts it uses.
"""
