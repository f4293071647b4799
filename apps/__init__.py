"""The contract of apps, their video frames and input-rate patterns; one folder per bundled app."""
