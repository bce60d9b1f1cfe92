"""Contrastive learning (survey, section 3.1.5): tell what was observed from what was put in its place."""
