"""Limits that the kernel enforces on a child, in one room to audit in one sitting."""
