"""The config's sections, one file each, so that a stage imports only the sections that it reads."""
