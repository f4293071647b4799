"""Where results go for good, besides the window of the API."""
