"""Where tasks run: threads, virtual time, Ray actors; one port."""
