"""Designs of studies: the seeds, questions and samples that show an effect, their cost, and the arm to train next."""
