"""From the tables of a study to its figures: one function a figure, tables in, Figure out."""
