"""What is not expected to pass yet: a pattern over the names of checks, and why. An entry of which any check passes, or that
names no check, fails the run: delete or narrow it as the feature lands."""

PENDING = {}
