"""References generated from the catalogue: both sides of every statement, evaluated at real inputs."""
