"""Which views are there, and what do keys do in them? A class each."""
