"""What can go wrong, in three families. Every message is one sentence."""

from __future__ import annotations

NOT_PICKLED = "a state has connections and cannot be pickled; save its state_dict()"


class Error(RuntimeError):
    """Base of all errors of this package; on its own: no memory, no thread.

    ``rank`` is the rank at fault, or None where nobody's is known.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[type[Error], tuple[str, int | None]]:
        return type(self), (str(self), self.rank)


class UsageError(Error, ValueError):
    """A wrong spec, option or argument; the message says what is allowed."""


class DataError(Error):
    """Bytes that are not what they should be."""


class TransportError(Error):
    """A rank that does not answer, has left or gave up; ``rank`` says which."""


def told(error: BaseException) -> str:
    """An exception of somebody else as a part of a sentence."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
