"""Kernels of the server's stages B, C and D: three implementations that give the same results."""
