"""Topics of the Kafka sink: names, creation, growth, and whether they are still the same."""
