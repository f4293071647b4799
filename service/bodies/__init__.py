"""What REST says and takes, typed."""
