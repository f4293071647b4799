"""A daemon whose runners compute nothing: for tests of everything above it."""
