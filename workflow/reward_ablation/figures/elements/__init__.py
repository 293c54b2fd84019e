"""What figures are made of."""
