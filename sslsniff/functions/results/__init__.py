"""Where is the result of a function when it returns? By the calling conventions of its language."""
