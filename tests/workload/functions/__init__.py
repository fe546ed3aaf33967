"""Programs whose functions the tests trace."""
