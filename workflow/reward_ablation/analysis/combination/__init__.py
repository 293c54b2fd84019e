"""What methods of combination did in their arms, and what they would have done elsewhere."""
