"""Typed bodies of REST requests and answers."""
