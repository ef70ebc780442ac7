"""Errors by kind. `code` is the status code; the message states the location and what to do."""


class Error(Exception):
    """Any failure of xplane_time. `code`: the name of the status, such as "DATA_LOSS"."""

    code: str

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str]]:
        return type(self), (self.code, self.message)


class ArgumentError(Error, ValueError):
    """An invalid option, such as a pattern, a device or a trim policy."""


class InputError(Error, OSError):
    """A file that is missing or cannot be read."""

    def __str__(self) -> str:
        return self.message


class MissingInputError(InputError, FileNotFoundError):
    """A path that does not exist."""


class DamagedTraceError(Error):
    """Bytes that are not a valid trace; the message has plane, line, event and byte offset."""


class NothingFoundError(Error):
    """A valid trace without the requested content; the message lists the available content."""


class XplaneTimeWarning(UserWarning):
    """Warns that times may be wrong or that data are missing, if the returned table does not show
    this.

    warnings.simplefilter("error", XplaneTimeWarning) turns the warning into an error.
    """


_KINDS: dict[str, type[Error]] = {
    "INVALID_ARGUMENT": ArgumentError,
    "NOT_FOUND": MissingInputError,
    "PERMISSION_DENIED": InputError,
    "UNAVAILABLE": InputError,
    "DATA_LOSS": DamagedTraceError,
    "RESOURCE_EXHAUSTED": DamagedTraceError,
    "FAILED_PRECONDITION": NothingFoundError,
}


def from_status(code: str, message: str) -> Error:
    return _KINDS.get(code, Error)(code, message)
