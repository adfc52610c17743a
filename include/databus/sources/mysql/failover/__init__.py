"""Another log than the one a flow has read: failover by GTID, replaced and purged logs."""
