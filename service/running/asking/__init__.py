"""How a runner is asked: requests, the port, the mailbox, the window of results."""
