"""What the components' gradients say: their similarities, and steps under other weights or methods."""
