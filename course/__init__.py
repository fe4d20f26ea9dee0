"""What maintainers run: build, execute, verify and report. Lessons never import it."""
