"""The daemon: registered apps, their runs, and the supervision of their runners."""
