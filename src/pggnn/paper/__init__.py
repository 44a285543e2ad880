"""The paper's tables: what was published, and how to make it again."""
