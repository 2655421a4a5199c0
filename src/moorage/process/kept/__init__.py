"""What is kept of processes: their records, and their logs as windows of text."""
