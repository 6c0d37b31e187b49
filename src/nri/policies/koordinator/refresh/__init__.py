"""The writes of a changed rule for what runs already: pods and folders in, writes out; pure."""
