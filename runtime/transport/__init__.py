"""Transport of items between a runner and its workers."""
