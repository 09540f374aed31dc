"""Ctrl-C while a command is loading.

A `KeyboardInterrupt` would be a traceback out of the middle of an import or, where an extension
module loads, another error or a crash.
"""

import os
import signal
import sys

# Set while a process that starts itself again blocks Ctrl-C.
RESTARTED = "_ALBERT_TF_RESTARTED"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_SCRIPTS = ("run_", "export_saved_model.py", "convert_checkpoint.py")
_program = (sys.argv or [""])[0]
_folder, _name = os.path.split(os.path.abspath(_program))
# `python -m` imports the package of a module before it looks for the module.
_IS_COMMAND = (
    _program == "-m"
    or (_folder == ROOT and _name.startswith(_SCRIPTS))
    or (_name.startswith("albert-") and "." not in _name)
)

_console = 2


def exit_when_interrupted(console: int = 2) -> None:
    """Let Ctrl-C end this process at once if it is a command; other programs stay as they are.

    Args:
        console: file descriptor of standard error.
    """
    global _console
    _console = console
    if _IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)
    if os.environ.pop(RESTARTED, None):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_when_interrupted() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(number: int, frame: object) -> None:
    name = os.path.basename(sys.argv[0].removesuffix("/__main__.py"))
    os.write(_console, f"{name}: interrupted\n".encode())
    os._exit(128 + number)
