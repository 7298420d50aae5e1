"""What holds the code to its references: adversarial cases, derived bounds and the audit's records."""
