"""Where does a library hand over its secrets? The function that gets each with its label."""
