"""The content of arenas: models, prompts, responses and their bytes; import and withdrawal."""
