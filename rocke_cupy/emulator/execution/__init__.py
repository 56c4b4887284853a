"""One launch: what the device is given, the core at work on it, and what is reported."""
