"""A bank whose workers and parent are killed: every transfer counts once, and the sum of all balances is 0."""
