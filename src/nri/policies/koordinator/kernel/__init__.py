"""Texts of kernel files, read and written without touching the files; pure."""
