"""A daemon that moves or swaps idle memory, for each container of a class."""
