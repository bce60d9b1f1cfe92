"""What pre-training minimises: one file per term of the survey."""
