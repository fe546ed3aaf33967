"""What do lists and texts say about what was captured? Columns, panes, diagrams."""
