"""A line in the log for each pod's network."""
