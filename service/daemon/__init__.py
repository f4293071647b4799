"""Many apps: which there are, which run, and what brings them back."""
