"""Where secrets stand in bytes, decided on the bytes alone."""
