"""The service: one running app, many in a daemon, and the command line, REST and page in front of them."""
