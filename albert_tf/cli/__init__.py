"""The commands: each turns its flags into a dataclass and calls one function of the library.

TensorFlow is loaded only when work begins, so `--help` and errors about flags appear immediately.
"""
