"""Which outputs are there? A folder for each: what it writes, and how."""
