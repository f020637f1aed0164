package cmd

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

// temporaryServerCommand is the process of the container with the temporary server of a verification.
func temporaryServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "server",
		Short: "Run the temporary server that a backup is verified in",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			return temporary.Run(c.Context(), temporary.Options{
				Folder: job.DirTemporary, Data: job.DirTemporaryData, Program: program, Output: c.ErrOrStderr(),
				Log: agent.NewLogger(c.ErrOrStderr(), slog.LevelInfo),
			})
		},
	}
}

// temporaryFetchCommand is the restore_command of this server. Its exit codes are those of fettle-wal.
func temporaryFetchCommand() *cobra.Command {
	c := &cobra.Command{Use: "fetch NAME PATH", Short: "Fetch a file of the WAL archive for a temporary server: its restore_command", Args: cobra.ExactArgs(2)}
	folder := c.Flags().String("folder", job.DirTemporary, "folder that is shared with the container that reads the store")
	c.RunE = func(c *cobra.Command, args []string) error {
		found, err := temporary.Fetch(c.Context(), *folder, args[0], args[1])
		switch {
		case err != nil:
			return &exitError{walfile.ExitAgain, err}
		case !found:
			return &exitError{walfile.ExitNoFile, fmt.Errorf("the archive has no %s", args[0])}
		}
		return nil
	}
	return c
}
