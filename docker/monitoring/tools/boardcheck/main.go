// Boardcheck reads Grafana dashboards with Grafana's own generated types, strictly: a field that no version of the schema
// has, a missing one and a value of another type are errors. It needs no Grafana.
//
// Usage: boardcheck FILE…
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "no dashboard given")
		os.Exit(2)
	}
	// Panels and queries are checked by the types of their kinds.
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	board := dashboard.NewDashboard()
	if err := board.UnmarshalJSONStrict(raw); err != nil {
		return err
	}
	return board.Validate()
}
