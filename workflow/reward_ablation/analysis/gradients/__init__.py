"""What the components' gradients say: similarities, projections, other weights."""
