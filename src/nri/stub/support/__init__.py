"""Code that programs, sessions, handlers and plugins share."""
