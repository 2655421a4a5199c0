"""Limits that the kernel enforces on a child, in one room, so that it can be audited in one sitting."""
