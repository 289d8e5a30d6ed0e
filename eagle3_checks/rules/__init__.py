"""Facts to findings: one class a rule, one module a family."""
