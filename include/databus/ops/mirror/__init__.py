"""Use cases of mirrors: consumer groups, offset maps, heartbeats, loops, throttle."""
