"""Methods by which an arm combines its components: a file each in `methods`, and what they share."""
