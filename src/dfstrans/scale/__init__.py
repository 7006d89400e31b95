"""Recordings of whole fleets: a pure function from a file to a table of results, run on many computers."""
