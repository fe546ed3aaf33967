"""Which exchanges of several processes belong to one request? Only what is proved is joined."""
