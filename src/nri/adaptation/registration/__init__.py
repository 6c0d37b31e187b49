"""A plugin's way in: accepted, named, configured, synchronized, put in its place; and what it asks for by itself."""
