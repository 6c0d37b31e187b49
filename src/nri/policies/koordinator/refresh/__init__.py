"""What a changed rule writes again for what runs already: pods and folders in, writes out; pure."""
