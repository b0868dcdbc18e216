"""SQL text to statements, and statements to typed expressions and MapFilterProjects."""
