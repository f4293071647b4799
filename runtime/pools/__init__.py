"""Worker pools that run tasks, with a common interface: threads, virtual time, Ray actors."""
