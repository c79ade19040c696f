"""The audit: a hash chain per writing process, and its verification against ledger and anchors."""
