"""The work behind the verbs, as far as it belongs to the command: one module for each job, several verbs may share one.

Rules: these modules are imported by a verb when it runs, so they import at their top whatever they need.
"""
