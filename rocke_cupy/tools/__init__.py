"""What is done with kernels beside calling them: build ahead, inspect, time, tell the set-up."""
