"""How people reach it: one running app, many in a daemon, and command line, REST and page in front of them."""
