"""Row-by-row work as one value: MapFilterProject, temporal plans, and the choice of what is read first."""
