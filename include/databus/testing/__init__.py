"""What tests of databus and of its users need: in-process stores and servers that fail on purpose."""
