"""Requests to a runner: their types, the port, the mailbox, the window of results."""
