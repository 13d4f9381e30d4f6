"""What an arena holds: models, prompts, responses and their bytes; how they are imported and taken down."""
