"""The former place of `albert_tf.preflight`."""
