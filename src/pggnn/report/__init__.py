"""Pictures of groups and of results."""
