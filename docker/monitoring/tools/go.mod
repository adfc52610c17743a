module databus/docker/monitoring/tools

go 1.26.7

require (
	github.com/grafana/grafana-foundation-sdk/go v0.0.22
	github.com/prometheus/prometheus v0.316.0
)

tool github.com/prometheus/prometheus/cmd/promtool
