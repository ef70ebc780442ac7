"""What goes wrong, by kind. `code` is the status code, the message says where and what to do."""


class Error(Exception):
    """Any failure of xplane_time. `code`: the name of the status, as "DATA_LOSS"."""

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
    """An option that makes no sense: a pattern, a device, a trim."""


class InputError(Error, OSError):
    """A file that is not there, or cannot be read."""

    def __str__(self) -> str:
        return self.message


class MissingInputError(InputError, FileNotFoundError):
    """A path that is not there."""


class DamagedTraceError(Error):
    """Bytes that are no trace; the message has plane, line, event and byte offset."""


class NothingFoundError(Error):
    """A sound trace without what was asked for; the message lists what is there."""


class XplaneTimeWarning(UserWarning):
    """Times that may be wrong, or something that is missing, in a table that has no other way to
    say so.

    warnings.simplefilter("error", XplaneTimeWarning) makes it an error.
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
