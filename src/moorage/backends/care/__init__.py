"""Looking after environments when no session is open in them: reached, found left over, removed."""
