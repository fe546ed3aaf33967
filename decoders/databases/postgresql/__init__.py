"""PostgreSQL's protocol, version 3."""
