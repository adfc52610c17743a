"""What the product tells about itself while it runs: time, progress lines, durations. No storage, no framework."""
