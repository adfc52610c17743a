"""Search sink: documents in OpenSearch or Elasticsearch that follow the rows of the source."""
