"""Multi-modal models (survey, section 4.3): text with pictures, sounds or videos."""
