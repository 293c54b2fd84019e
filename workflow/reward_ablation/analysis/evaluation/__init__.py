"""From the answers of evaluated models to estimates and differences."""
