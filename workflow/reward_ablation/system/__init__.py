"""Files, locks, GPUs, errors and HTML: modules that know nothing of studies."""
