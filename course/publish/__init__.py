"""What people get: archives, releases, the address that everything points at."""
