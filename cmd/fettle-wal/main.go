// Command fettle-wal is PostgreSQL's archive_command and restore_command. It only sends a request to the agent in its container.
//
// PostgreSQL starts it for each WAL file, and a primary that shuts down for a switchover waits for it. It is separate from the
// operator's program because it imports only the standard library, and starts in a seventh of the time.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

func main() {
	code, err := walfile.Run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fettle-wal:", err)
	}
	os.Exit(code)
}
