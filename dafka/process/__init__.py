"""What any process of ours needs: clocks, logs, health, metrics, signals."""
