// Command fettle is the operator and, as its sub-commands, all else that runs in a cluster.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-dev/fettle/internal/cmd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fettle:", err)
		os.Exit(1)
	}
}

func run() error {
	return cmd.New().ExecuteContext(ctrl.SetupSignalHandler())
}
