"""One running app, from its spec to its last result."""
