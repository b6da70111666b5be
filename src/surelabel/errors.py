"""The one exception that means "the user can mend this"."""


class UserError(Exception):
    """A mistake in what was asked for or in the data given.

    The message says what is wrong, where, and what to do about it. The command line prints it without a traceback
    and exits with code 2.
    """
