"""The one error that a user, rather than a programmer, has to act on."""


class InputError(ValueError):
    """A flag, file or folder is not what it should be.

    The message is one line that names the flag or file, the value, and what would be right.
    Commands print it without a traceback and end with exit code 1.
    """
