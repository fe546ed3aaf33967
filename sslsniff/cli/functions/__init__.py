"""Commands that trace functions: what they probe, and where calls go."""
