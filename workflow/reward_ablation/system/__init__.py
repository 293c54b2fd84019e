"""Files, locks, GPUs, errors and HTML: modules that do not depend on studies."""
