"""From a run's spec to its running processes: laid out, launched, and with a vLLM server beside them."""
