"""What breaks: files from strangers, processes killed at any moment, memory beyond the plan."""
