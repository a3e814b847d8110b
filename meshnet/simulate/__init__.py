"""What the kernel does with a packet, without a kernel: rules and a namespace's facts to a trace."""
