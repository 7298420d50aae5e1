"""One script for each library that bench/peers.py times; each runs in an environment of its own."""
