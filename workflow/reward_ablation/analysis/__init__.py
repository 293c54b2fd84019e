"""From the files of runs to the tables of a study: tables in, tables out."""
