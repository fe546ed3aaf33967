"""What do all parts pass on? Events, chunks, exchanges; and how each leads to the next."""
