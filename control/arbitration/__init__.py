"""Several apps on one machine: who gets how much of it."""
