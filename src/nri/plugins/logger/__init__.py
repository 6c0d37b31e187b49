"""A plugin that logs the entire content of each request."""
