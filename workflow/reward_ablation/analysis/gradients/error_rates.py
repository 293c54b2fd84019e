"""Error rates of the tables that figures quote, in a module apart: figures import no other code of these tables."""

#: Expected share of false alarms among the steps that are called harmful.
FALSE_DISCOVERIES = 0.05
