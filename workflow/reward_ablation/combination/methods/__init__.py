"""Methods of combination, one file each; the function has the file's name."""
