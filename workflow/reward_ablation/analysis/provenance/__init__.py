"""By which code, with which packages and on which hardware the runs of a study were trained."""
