"""What is counted, and that the counts agree with one another."""
