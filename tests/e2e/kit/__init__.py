"""What the end-to-end tests stand on: a real control plane on loopback ports, and simulated nodes."""
