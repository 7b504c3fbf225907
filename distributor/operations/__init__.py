"""What an operator does with a running topology: look, judge, change, take a cluster out."""
