"""The command line: `pelton COMMAND`."""
