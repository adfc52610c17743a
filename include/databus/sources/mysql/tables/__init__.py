"""Tables of a server: definitions, changes, and what an account may see of them."""
