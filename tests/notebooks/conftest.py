"""What the run of all notebooks says at its end."""


def pytest_terminal_summary(terminalreporter):
    """How many lines that need an accelerator ran under a stand-in, and which did not."""
    found = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "lines" and getattr(report, "when", "") == "call"
    ]
    if not found:
        return
    needed = sum(count for count, _ in found)
    missed = [text for _, texts in found for text in texts]
    terminalreporter.write_line(
        f"Lines that need an accelerator: {needed - len(missed)} of {needed} ran under a stand-in for a GPU."
    )
    for text in missed:
        terminalreporter.write_line(f"  not run: {text}")
