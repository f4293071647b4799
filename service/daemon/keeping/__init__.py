"""How one app is kept up: the watchdog, its policy, its place at a host, what is wanted and remembered."""
