"""What the components' gradients say: similarities, other weights."""
