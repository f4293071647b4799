"""Data sets that apps search in: made of a folder of files, kept in versions, read while the next one is made."""
