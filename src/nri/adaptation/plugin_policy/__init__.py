"""What the operator allows each plugin, read from one file and worked out per event. Pure but for reading the file."""
