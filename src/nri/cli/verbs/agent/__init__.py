"""The verbs of the node agent."""
