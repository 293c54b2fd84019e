"""Methods of combination, one file each. The function has the name of its file."""
