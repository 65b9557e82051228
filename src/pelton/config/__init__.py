"""What was asked, what the machine and the model are, and what follows from it: the complete configuration."""
