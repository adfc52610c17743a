"""Alerting: rules that judge a flow's figures, the memory that sends each alert once, and channels to operators."""
