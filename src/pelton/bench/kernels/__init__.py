"""Every op by itself, as the engine would run it: small plans compiled by the CPU backend, timed op by op."""
