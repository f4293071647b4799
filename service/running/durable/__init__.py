"""What outlives a runner: how far it had come, what was pushed and is not out, and what left."""
