"""What a spec comes to before anything starts: source, compositions, settings."""
