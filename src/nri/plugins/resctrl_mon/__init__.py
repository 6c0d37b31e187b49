"""A monitoring group of resctrl for each pod."""
