"""The query page: its form, its state, the answer and the download of a result."""
