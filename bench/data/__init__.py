"""What is read: data folders and their examples, text to pre-train on, and how both come here."""
