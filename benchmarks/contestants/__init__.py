"""What is measured side by side: albert_tf and the libraries that users would otherwise pick."""
