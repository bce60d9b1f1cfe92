"""The rows of the survey's tables 1 to 4 as printed, and its tables of models and of compression with reported and
measured scores."""
