"""Alerting: rules that judge a flow's figures, the memory that tells each alert once, and channels to operators."""
