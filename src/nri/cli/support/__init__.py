"""Code that verbs share: their classes, options, rows and completion."""
