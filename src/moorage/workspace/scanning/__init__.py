"""The search engine of our own: a program that prints what ripgrep would print."""
