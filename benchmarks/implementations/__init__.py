"""The implementations that are compared: albert_tf and the libraries that users could choose."""
