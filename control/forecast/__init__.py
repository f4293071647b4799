"""What is expected: of compositions, from the profile and from what was measured before."""
