"""What the locked packages are: their hashes and their licences."""
