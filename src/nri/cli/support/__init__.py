"""What verbs share: their classes, options, rows and completion. The work of a verb is in the package that it is about.

These modules are imported by a verb when it runs, so they import at their top whatever they need.
"""
