"""What is the current goroutine, or task of an async runtime? Where a thread keeps its number."""
