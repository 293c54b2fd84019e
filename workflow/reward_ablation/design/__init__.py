"""Planning of studies: power, budget, sequential seeds, and the arm to train next."""
