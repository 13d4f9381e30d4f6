"""Live battles: people's own prompts, answered by two hidden models at once."""
