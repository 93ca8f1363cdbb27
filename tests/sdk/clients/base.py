"""What all clients share: two replicas in turn, no retries, a deadline."""

TIMEOUT_SECONDS = 20.0


class Turn:
    """One SDK client for each replica; each use takes the next."""

    def __init__(self, sdks):
        self._sdks = sdks
        self._next = 0

    def take(self):
        """The client whose turn it is."""
        self._next += 1
        return self._sdks[self._next % len(self._sdks)]
