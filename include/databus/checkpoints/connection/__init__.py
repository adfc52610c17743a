"""The connection to ZooKeeper: client, session, atomic writes, options, access rights."""
