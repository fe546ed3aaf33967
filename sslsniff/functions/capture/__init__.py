"""How are hits of a program's functions captured? Fetch programs, hits, counts, histograms."""
