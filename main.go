// Command fettle is the operator and, as sub-commands, all other programs that run in a cluster.
package main

import (
	"fmt"
	"os"

	"github.com/fettle-dev/fettle/internal/cmd"
)

func main() {
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "fettle:", err)
		os.Exit(cmd.ExitCode(err))
	}
}
