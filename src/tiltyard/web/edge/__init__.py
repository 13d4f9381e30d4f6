"""The edge: what every request must satisfy before a route answers it, and what every response carries."""
