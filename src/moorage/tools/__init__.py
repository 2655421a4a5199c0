"""The face a model sees: argument types, limits and wording of results, one tool per file."""
