"""Parts of long-running commands: an HTTP server for health, metrics and explanations, and notifications to systemd."""
