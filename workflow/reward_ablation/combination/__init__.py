"""Methods by which an arm combines its components: one file each in `methods`, and the code that they share."""
