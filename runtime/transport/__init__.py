"""How items travel between a runner and its workers."""
