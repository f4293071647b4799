"""The stages B, C and D of the server, computed in three ways that give the same."""
