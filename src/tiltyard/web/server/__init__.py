"""The server: its processes, the application, metrics and logs."""
