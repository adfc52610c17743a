// Composecheck loads compose files as docker compose does (same library, all checks on) and prints the
// resolved project as JSON. It needs no docker engine. Warnings, such as a variable without a value, are errors.
//
// Usage: composecheck -env-file FILE [-env-file FILE…] COMPOSE_FILE
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/sirupsen/logrus"
)

type files []string

func (f *files) String() string { return strings.Join(*f, ",") }

func (f *files) Set(value string) error {
	*f = append(*f, value)
	return nil
}

// warnings collects what the loader logs: docker compose prints such lines and goes on.
type warnings struct{ seen []string }

func (w *warnings) Levels() []logrus.Level {
	return []logrus.Level{logrus.WarnLevel, logrus.ErrorLevel}
}

func (w *warnings) Fire(entry *logrus.Entry) error {
	w.seen = append(w.seen, entry.Message)
	return nil
}

func main() {
	var envFiles files
	flag.Var(&envFiles, "env-file", "file of KEY=value lines for ${KEY} (repeatable)")
	flag.Parse()
	if err := run(envFiles, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(envFiles, composeFiles []string) error {
	if len(composeFiles) == 0 {
		return fmt.Errorf("no compose file given")
	}
	warned := &warnings{}
	logrus.AddHook(warned)
	// The environment of the caller is left out on purpose: the files alone must be enough.
	options, err := cli.NewProjectOptions(
		composeFiles,
		cli.WithWorkingDirectory(filepath.Dir(composeFiles[0])),
		cli.WithEnvFiles(envFiles...),
		cli.WithDotEnv,
		cli.WithResolvedPaths(true),
	)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	if len(warned.seen) > 0 {
		return fmt.Errorf("%s", strings.Join(warned.seen, "\n"))
	}
	resolved, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(resolved, '\n'))
	return err
}
