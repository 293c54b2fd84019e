"""The config's sections, one file each: a stage imports those that it reads, and no other."""
