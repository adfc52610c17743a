"""Quality of runs: Great Expectations results, trends, Data Docs."""
