"""Non-contextual embeddings (survey, sections 2.4.1 and 3.3.1): a word has one vector in all contexts."""
