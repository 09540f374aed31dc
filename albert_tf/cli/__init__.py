"""The commands: each turns its flags into a dataclass and calls one function of the library.

TensorFlow is loaded only once there is work to do, so that `--help` and wrong flags answer at once.
"""
