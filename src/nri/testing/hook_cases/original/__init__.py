"""The original's own helpers, which nothing needs but their recorded cases: texts in, values out; pure."""
