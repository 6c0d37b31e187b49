"""A plugin that logs each pod's network."""
