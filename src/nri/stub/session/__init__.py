"""One connection of a plugin to a runtime: registration, requests, configuration, background work and reporting."""
