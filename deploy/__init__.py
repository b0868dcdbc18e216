"""What runs Tidegate elsewhere: a container, a Grafana dashboard, alert rules of Prometheus."""
