"""Data sets that apps search in: made from a folder of files, kept in versions, read while the next version is made."""
