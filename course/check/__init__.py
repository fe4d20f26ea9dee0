"""What was built and run is judged: notebooks, numbers, packages, facts."""
