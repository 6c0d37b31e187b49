"""The plugin that logs each request with all its content."""
