"""What was captured? The process that captures, and what is stored of its lines."""
