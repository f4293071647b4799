"""The dispatcher and its parts: events in, instructions and outcomes out. Pure."""
