"""Processes that outlive the call that started them: records, logs, terminals and their end."""
