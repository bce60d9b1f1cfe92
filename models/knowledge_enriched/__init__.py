"""Knowledge-enriched models (survey, section 4.1): text with entities, facts or linguistic knowledge."""
